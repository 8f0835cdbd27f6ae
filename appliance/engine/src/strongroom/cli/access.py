"""Opens the repository that the options name: its location, its store, a key with the rights."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Literal

from strongroom.cli.passphrase import ask_passphrase, given_passphrase
from strongroom.errors import UsageError, WrongKeyError
from strongroom.printable import printable
from strongroom.repo.keys.files import import_key
from strongroom.repo.repository import Repository
from strongroom.stores.capabilities import connect_ahead
from strongroom.stores.local import LocalStore
from strongroom.text_marks import BYTE_ORDER_MARK

if TYPE_CHECKING:
    import argparse

    from strongroom.cli.settings import Settings
    from strongroom.cli.terminal import Terminal
    from strongroom.repo.keys.roles import Key
    from strongroom.stores.store import Store

# How a command uses the repository: "read" contents and names, which takes the restore key, or
# "write" (add data and list snapshots), for which a put key is enough.
Need = Literal["read", "write"]

TRIES_AT_A_TERMINAL = 3
GREATEST_KEY_FILE_BYTES = 64 << 10


def repository_place(arguments: argparse.Namespace) -> str:
    """Give the place that --repo or the environment names; raises UsageError if neither does."""
    settings: Settings = arguments.settings
    if not settings.repository:
        raise UsageError("no repository was named; use --repo or $STRONGROOM_REPOSITORY")
    return settings.repository


def open_store(place: str, settings: Settings | None = None) -> Store:
    """Give the store at `place`: a folder that need not exist yet, or at a storage daemon.

    `settings` hold our identity for a daemon, which is dialled at first use. Raises UsageError,
    also for what looks like a place that another program would understand (`sftp:...`).
    """
    store: Store
    if place.startswith(("unix:", "strongroom:")):
        store = _remote_store(place, settings)
    elif place.startswith("/"):
        store = LocalStore(place)
    else:
        # Imported only where needed: it imports the client of storage daemons.
        from strongroom.net.storage.place import folder_of

        store = LocalStore(folder_of(place))
    if settings is None or settings.store_faults is None:
        return store
    from strongroom.stores.faults import parse_faults

    return parse_faults(store, settings.store_faults)


def begin_store(arguments: argparse.Namespace, copies: int) -> Store:
    """Give the store that the user named, connecting in the background if that takes time.

    `copies`: how many processes will be forked that need a connection each. For `open_repository`.
    """
    store = open_store(repository_place(arguments), arguments.settings)
    connect_ahead(store, copies)
    return store


def open_repository(
    arguments: argparse.Namespace,
    terminal: Terminal,
    need: Need = "read",
    store: Store | None = None,
    module: str = "",
) -> Repository:
    """Open the repository that the user named with the key that the user gave.

    Asks for the passphrase at a terminal where one is needed and none was given. `module`: what the
    command imports next; it is imported while the key is computed from the passphrase, on another
    core. Raises RepositoryNotFoundError, WrongKeyError, UsageError, and KeyRightError when the key
    lacks the required rights. The caller closes it.
    """
    place = repository_place(arguments)
    return open_place(place, arguments.settings, terminal, need, store, module)


def open_place(
    place: str,
    settings: Settings,
    terminal: Terminal,
    need: Need,
    store: Store | None = None,
    module: str = "",
) -> Repository:
    """Open the repository at `place` as `open_repository` does, with the keys of `settings`."""
    store = store or open_store(place, settings)
    try:
        repository = _open(store, settings, terminal, module)
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
        raise UsageError(f"cannot read the key file {printable(path)}: {error.strerror}") from error


def _remote_store(place: str, settings: Settings | None) -> Store:
    from strongroom.net.storage.place import open_network, open_socket, parse_place

    parsed = parse_place(place)
    if parsed.socket_path:
        return open_socket(parsed, cache_folder=settings.cache_folder if settings else None)
    folder = settings.identity_folder if settings else None
    if settings is None or not folder:
        raise UsageError(f"{printable(place)} requires a certificate; give --identity FOLDER")
    from strongroom.net.identities.identity import Identity

    return open_network(
        parsed,
        lambda: Identity.load(folder),
        tls_mode=settings.tls_mode,
        cache_folder=settings.cache_folder,
    )


def _open(store: Store, settings: Settings, terminal: Terminal, module: str) -> Repository:
    if settings.key_file:
        return Repository.open(store, read_key_file(settings.key_file))
    passphrase = given_passphrase(settings, terminal)
    if passphrase is not None:
        meanwhile = partial(import_module, module) if module else None
        try:
            return Repository.open(store, passphrase, meanwhile)
        except WrongKeyError:
            # Older versions took the mark that an editor put into the file for a part of it.
            if not settings.password_file or not _has_mark(settings.password_file):
                raise
            return Repository.open(store, BYTE_ORDER_MARK + passphrase)
    try:
        return Repository.open(store, None)
    except WrongKeyError:
        return _open_asking(store, terminal)


def _has_mark(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(len(BYTE_ORDER_MARK)) == BYTE_ORDER_MARK
    except OSError:
        return False


def _open_asking(store: Store, terminal: Terminal) -> Repository:
    question = f"passphrase of {printable(store.location)}"
    for _ in range(TRIES_AT_A_TERMINAL - 1):
        try:
            return Repository.open(store, ask_passphrase(question))
        except WrongKeyError as error:
            terminal.warn(str(error))
    return Repository.open(store, ask_passphrase(question))
