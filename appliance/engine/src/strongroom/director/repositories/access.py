"""The director's own access to repositories, by the Storage they belong to.

Backups do not need it: agents connect to the storage daemon themselves. Restores (tickets), verify
jobs, retention, copies, browsing and rebuilding the catalog do. A Storage resource has
`Repository` (a folder, or the local socket of the storage daemon, where deleting is allowed)
and `Passphrase File`; a repository without a passphrase needs none.

Opening derives a key from the passphrase, which is slow on purpose; the key is cached. Everything
blocks: call it in a thread. Safe for threads.

The name of the client in a snapshot is proven by its id. But where the director had no access to
the repository at the end of a backup, the catalog took the agent's report, and a compromised agent
may have named the snapshot of another client. So every caller that opens or removes a snapshot
checks by `own_snapshot` or `foreign` whose it is.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Mapping

import msgspec

from strongroom.base.errors import (
    DamageError,
    FalseSnapshotError,
    UnknownNameError,
    UsageError,
    WrongKeyError,
)

# Job processes import this module: they need neither the configuration nor what the API shows.
from strongroom.config.settings.storage import StorageSettings
from strongroom.director.catalog.storable import plain_columns
from strongroom.director.results.snapshots import Snapshot
from strongroom.director.shown_text import shown
from strongroom.engine.repository.keys.roles import Key
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.snapshots import Snapshot as StoredSnapshot
from strongroom.engine.stores.place import RemoteLocation, place_of
from strongroom.engine.stores.store import Store
from strongroom.net.identities.private_files import first_line

_MODE_OF_OTHERS = 0o007
_log = logging.getLogger(__name__)


class ForeignSnapshotError(DamageError):
    """The snapshot is of another client than the catalog says: an agent lied about it."""


class RepositoryAccess(msgspec.Struct, frozen=True):
    """Where a repository is, and the file with its passphrase ("": it has none)."""

    place: str
    passphrase_file: str = ""

    @classmethod
    def of(cls, storage: StorageSettings) -> RepositoryAccess | None:
        """The place for a Storage; None if it names no repository."""
        if not storage.repository:
            return None
        return cls(storage.repository, storage.passphrase_file)


class Repositories:
    """The repositories of the director's storages."""

    def __init__(
        self, places: Mapping[str, RepositoryAccess], cache_folder: bytes | None = None
    ) -> None:
        """places: by the name of the Storage. cache_folder: for copies of small objects."""
        self._places = dict(places)
        self.cache_folder = cache_folder
        self._keys: dict[RepositoryAccess, Key] = {}
        self._lock = threading.Lock()

    @property
    def names(self) -> list[str]:
        """Storages whose repository can be opened."""
        return list(self._places)

    def replace(self, places: Mapping[str, RepositoryAccess]) -> None:
        """Replace the places, after a reload."""
        with self._lock:
            self._places = dict(places)
            self._keys = {
                place: key for place, key in self._keys.items() if place in places.values()
            }

    def place(self, storage: str) -> RepositoryAccess:
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
        return open_place(self.place(storage).place, self.cache_folder)

    def open(self, storage: str) -> Repository:
        """The repository of a Storage with its restore key; the caller closes it.

        Raises UnknownNameError, UsageError (the passphrase file), and what Repository.open does.
        """
        place = self.place(storage)
        store = self.open_store(storage)
        try:
            with self._lock:
                key = self._keys.get(place)
            try:
                repository = Repository.open(store, read_passphrase(place) if key is None else key)
            except WrongKeyError:
                if key is None:
                    raise
                # It was lost and made anew since its key was derived.
                repository = Repository.open(store, read_passphrase(place))
            repository.cache_folder = self.cache_folder
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
    from strongroom.net.storage.place import open_socket

    named = place_of(place)
    if isinstance(named, RemoteLocation) and named.socket_path:
        return open_socket(named, cache_folder=cache_folder)
    if not place.startswith("/"):
        raise UsageError(f"{place}: a repository is an absolute path, or unix:PATH of a socket")
    from strongroom.engine.stores.local import LocalStore

    return LocalStore(place)


def read_passphrase(place: RepositoryAccess) -> bytes | None:
    """The first line of the passphrase file, None where there is none. Raises UsageError."""
    if not place.passphrase_file:
        return None
    line = first_line(place.passphrase_file)
    if os.stat(place.passphrase_file).st_mode & _MODE_OF_OTHERS:
        _log.warning("anyone here can read %s; chmod 400 it", place.passphrase_file)
    return line


def own_snapshot(repository: Repository, record: Snapshot) -> StoredSnapshot:
    """The snapshot of a record. Raises ForeignSnapshotError, and as reading."""
    snapshot = repository.snapshot(record.id)
    if fault := foreign(snapshot, record):
        raise ForeignSnapshotError(f"{fault}; find out what that agent did")
    return snapshot


def require_sound(record: Snapshot) -> None:
    """FalseSnapshotError for a snapshot that was found false: no one gets its files from here."""
    if record.false_reason:
        raise FalseSnapshotError(
            f"snapshot {record.id[:8]} was found false: {record.false_reason}. What is there of it "
            "can be read on the appliance: `strongroom restore ID --false`, with its whole id"
        )


def foreign(snapshot: StoredSnapshot, record: Snapshot) -> str:
    """Why a snapshot does not belong to the client of its record; "" if it does."""
    if plain_columns({"client": snapshot.host})["client"] == record.client:
        return ""
    # Anyone who may see the one client may not know of the other.
    _log.warning("snapshot %s says that it is of %s", record.id, shown(snapshot.host))
    return f"snapshot {record.id[:8]} is not of {record.client}, whose agent reported it"
