"""From what the user said to an open repository: its place, its store, a key that fits the job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from strongroom.cli.passphrase import ask_passphrase, given_passphrase
from strongroom.cli.terminal import shown
from strongroom.errors import UsageError, WrongKeyError
from strongroom.repo.keys import import_key
from strongroom.repo.repository import Repository
from strongroom.stores.local import LocalStore

if TYPE_CHECKING:
    import argparse

    from strongroom.cli.settings import Settings
    from strongroom.cli.terminal import Terminal
    from strongroom.repo.keys import Key
    from strongroom.stores.store import Store

# What a command does with the repository: "read" contents and names, for which only the restore key
# will do, or "write" (add, and list what there is), for which a put key is enough.
Need = Literal["read", "write"]

TRIES_AT_A_TERMINAL = 3
GREATEST_KEY_FILE_BYTES = 64 << 10


def repository_place(arguments: argparse.Namespace) -> str:
    """Give the place that --repo or the environment names; raises UsageError if neither does."""
    settings: Settings = arguments.settings
    if not settings.repository:
        raise UsageError("no repository was named; use --repo or $STRONGROOM_REPOSITORY")
    return settings.repository


def open_store(place: str, faults: str | None = None) -> Store:
    """Give the store at `place`, a folder that need not exist yet. Raises UsageError.

    `faults` states how it is to fail, in tests (strongroom.stores.faults).
    """
    if "://" in place:
        raise UsageError(f"{shown(place)} is no folder; repositories are local folders")
    store = LocalStore(place)
    if faults is None:
        return store
    from strongroom.stores.faults import parse_faults

    return parse_faults(store, faults)


def open_repository(
    arguments: argparse.Namespace, terminal: Terminal, need: Need = "read"
) -> Repository:
    """Open the repository that the user named with the key that the user gave.

    Asks for the passphrase at a terminal where none was given and one is needed. Raises
    RepositoryNotFoundError, WrongKeyError, UsageError, and KeyRightError when the key cannot do
    what is needed. The caller closes it.
    """
    return open_place(repository_place(arguments), arguments.settings, terminal, need)


def open_place(place: str, settings: Settings, terminal: Terminal, need: Need) -> Repository:
    """Open the repository at `place` as `open_repository` does, with the keys of `settings`."""
    store = open_store(place, settings.store_faults)
    try:
        repository = _open(store, settings, terminal)
        if need == "read":
            _ = repository.restore_key
    except BaseException:
        store.close()
        raise
    return repository


def read_key_file(path: str) -> Key:
    """Give the key that file `path` holds; raises UsageError."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return import_key(file.read(GREATEST_KEY_FILE_BYTES))
    except OSError as error:
        raise UsageError(f"cannot read the key file {shown(path)}: {error.strerror}") from error


def _open(store: Store, settings: Settings, terminal: Terminal) -> Repository:
    if settings.key_file:
        return Repository.open(store, read_key_file(settings.key_file))
    passphrase = given_passphrase(settings, terminal)
    if passphrase is not None:
        return Repository.open(store, passphrase)
    try:
        return Repository.open(store, None)
    except WrongKeyError:
        return _open_asking(store, terminal)


def _open_asking(store: Store, terminal: Terminal) -> Repository:
    question = f"passphrase of {shown(store.location)}"
    for _ in range(TRIES_AT_A_TERMINAL - 1):
        try:
            return Repository.open(store, ask_passphrase(question))
        except WrongKeyError as error:
            terminal.warn(str(error))
    return Repository.open(store, ask_passphrase(question))
