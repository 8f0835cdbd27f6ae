"""The director's own access to repositories, by the Storage they belong to.

Backups do not need it: agents connect to the storage daemon themselves. Restores (tickets), verify
jobs, retention, copies, browsing and rebuilding the catalog do. A Storage resource has
`Repository` (a folder, or the local socket of the storage daemon, where deleting is allowed)
and `Passphrase File`; a repository without a passphrase needs none.

Opening derives a key from the passphrase, which is slow on purpose; the key is cached. Everything
blocks: call it in a thread. Safe for threads.
"""

from __future__ import annotations

import logging
import os
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from strongroom.errors import UnknownNameError, UsageError, WrongKeyError
from strongroom.repo.repository import Repository

if TYPE_CHECKING:
    from collections.abc import Mapping

    from strongroom.config.settings.storage import StorageSettings
    from strongroom.repo.keys.roles import Key
    from strongroom.stores.store import Store

_LONGEST_PASSPHRASE_BYTES = 4096
_MODE_OF_OTHERS = 0o007
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RepositoryPlace:
    """Where a repository is, and the file with its passphrase ("": it has none)."""

    place: str
    passphrase_file: str = ""

    @classmethod
    def of(cls, storage: StorageSettings) -> RepositoryPlace | None:
        """The place for a Storage; None if it names no repository."""
        if not storage.repository:
            return None
        return cls(storage.repository, storage.passphrase_file)


class Repositories:
    """The repositories of the director's storages."""

    def __init__(
        self, places: Mapping[str, RepositoryPlace], cache_folder: bytes | None = None
    ) -> None:
        """places: by the name of the Storage."""
        self._places = dict(places)
        self._cache_folder = cache_folder
        self._keys: dict[RepositoryPlace, Key] = {}
        self._lock = threading.Lock()

    @property
    def cache_folder(self) -> bytes | None:
        """Where stores keep copies of small objects."""
        return self._cache_folder

    @property
    def names(self) -> list[str]:
        """Storages whose repository can be opened."""
        return list(self._places)

    def replace(self, places: Mapping[str, RepositoryPlace]) -> None:
        """Replace the places, after a reload."""
        with self._lock:
            self._places = dict(places)
            self._keys = {
                place: key for place, key in self._keys.items() if place in places.values()
            }

    def place(self, storage: str) -> RepositoryPlace:
        """Where the repository of a Storage is. Raises UnknownNameError."""
        found = self._places.get(storage)
        if found is None:
            raise UnknownNameError(
                f"the director cannot reach the repository of storage {storage!r}; its resource "
                "needs Repository and Passphrase File for this"
            )
        return found

    def open_store(self, storage: str) -> Store:
        """The store of a Storage, for which no key is needed; the caller closes it.

        Raises UnknownNameError, UsageError.
        """
        return open_place(self.place(storage).place, self._cache_folder)

    def open(self, storage: str) -> Repository:
        """The repository of a Storage with its restore key; the caller closes it.

        Raises UnknownNameError, UsageError (the passphrase file), and what Repository.open does.
        """
        place = self.place(storage)
        store = self.open_store(storage)
        try:
            with self._lock:
                key = self._keys.get(place)
            repository = Repository.open(store, read_passphrase(place) if key is None else key)
            _ = repository.restore_key
        except WrongKeyError as error:
            store.close()
            origin = place.passphrase_file or "no Passphrase File"
            raise WrongKeyError(f"{error} (storage {storage}: {origin})") from error
        except BaseException:
            store.close()
            raise
        with self._lock:
            self._keys[place] = repository.key
        return repository


def open_place(place: str, cache_folder: bytes | None = None) -> Store:
    """The store at a folder or behind a storage daemon's local socket. Raises UsageError."""
    from strongroom.net.storage.place import is_remote, open_socket, parse_place

    if is_remote(place):
        return open_socket(parse_place(place), cache_folder=cache_folder)
    if not place.startswith("/"):
        raise UsageError(f"{place}: a repository is an absolute path, or unix:PATH of a socket")
    from strongroom.stores.local import LocalStore

    return LocalStore(place)


def read_passphrase(place: RepositoryPlace) -> bytes | None:
    """The first line of the passphrase file, None where there is none. Raises UsageError."""
    if not place.passphrase_file:
        return None
    try:
        with open(place.passphrase_file, "rb") as file:
            if os.fstat(file.fileno()).st_mode & _MODE_OF_OTHERS:
                _log.warning("anybody here may read %s; chmod 400 it", place.passphrase_file)
            line = file.readline(_LONGEST_PASSPHRASE_BYTES).rstrip(b"\r\n")
    except OSError as error:
        raise UsageError(
            f"cannot read the passphrase file {place.passphrase_file}: {error.strerror}"
        ) from error
    if not line:
        raise UsageError(f"the first line of {place.passphrase_file} is empty")
    return line
