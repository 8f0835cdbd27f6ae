"""Opens the repository that the options name: its location, its store, a key with the rights."""

from __future__ import annotations

import argparse
import os
from functools import partial
from importlib import import_module
from typing import Literal

from strongroom.base.clock import local_text
from strongroom.base.errors import RepositoryNotFoundError, UsageError, WrongKeyError, os_errors
from strongroom.base.printable import printable
from strongroom.base.text_marks import BYTE_ORDER_MARK
from strongroom.cli.options import moment
from strongroom.cli.passphrase import ask_passphrase, given_passphrase
from strongroom.cli.settings import Settings
from strongroom.cli.terminal import Terminal
from strongroom.engine.repository.keys.files import import_key
from strongroom.engine.repository.keys.roles import Key
from strongroom.engine.repository.repository import Repository
from strongroom.engine.stores.capabilities import CountsTraffic, connect_ahead
from strongroom.engine.stores.local import LocalStore
from strongroom.engine.stores.object_lock import LocksObjects
from strongroom.engine.stores.place import (
    BucketLocation,
    FolderLocation,
    RemoteLocation,
    SftpLocation,
    SshLocation,
    place_of,
)
from strongroom.engine.stores.shared_counts import Traffic
from strongroom.engine.stores.store import Store

# How a command uses the repository: "read" contents and names, which takes the restore key, "view"
# those of a snapshot and store nothing, or "write" (add data and list snapshots), for which a put
# key is enough.
Need = Literal["read", "view", "write"]

TRIES_AT_A_TERMINAL = 3
GREATEST_KEY_FILE_BYTES = 64 << 10


def repository_place(arguments: argparse.Namespace) -> str:
    """Give the place that --repo or the environment names; raises UsageError if neither does."""
    settings: Settings = arguments.settings
    if not settings.repository:
        raise UsageError("no repository was named; use --repo or $STRONGROOM_REPOSITORY")
    return settings.repository


def open_store(place: str, settings: Settings | None = None) -> Store:
    """Give the store at `place`: a folder that need not exist yet, or reached over the network.

    `settings` hold our identity for a daemon, which is dialled at first use. Raises UsageError,
    also for what looks like a place that another program would understand (`sftp:...`).
    """
    named = place_of(place)
    store: Store
    if isinstance(named, FolderLocation):
        store = _folder_store(named.path)
    elif isinstance(named, BucketLocation):
        from strongroom.engine.stores.s3_store import S3Store

        store = S3Store(named)
    elif isinstance(named, SftpLocation):
        from strongroom.engine.stores.sftp_store import SftpStore

        store = SftpStore(named)
    else:
        store = _remote_store(named, settings)
    if settings is not None and settings.traffic is not None:
        _count_traffic(store, printable(place), settings.traffic)
    if settings is None or settings.store_faults is None:
        return store
    from strongroom.engine.stores.faults import parse_faults

    return parse_faults(store, settings.store_faults)


def add_past_option(parser: argparse.ArgumentParser) -> None:
    """Add `--at` to a command that only reads."""
    parser.add_argument(
        "--at",
        metavar="TIME",
        type=moment,
        help="read the repository as it was at TIME, without what was deleted or changed since: a "
        "date and time, or how long ago (2d); for a bucket with object lock",
    )


def past_moment(arguments: argparse.Namespace) -> int | None:
    """The time of `--at` in ns since 1970, None without it. Raises UsageError."""
    at_ns: int | None = getattr(arguments, "at", None)
    if at_ns is None:
        return None
    if getattr(arguments, "director", None) or getattr(arguments, "client", None):
        raise UsageError("--at reads a repository, not through the director; give --repo alone")
    return at_ns


def begin_store(arguments: argparse.Namespace, copies: int) -> Store:
    """Give the store that the user named, connecting in the background if that takes time.

    `copies`: how many processes will be forked that need a connection each. For `open_repository`.
    """
    settings: Settings = arguments.settings
    store = _limited(open_store(repository_place(arguments), settings), settings)
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
    at_ns = past_moment(arguments)
    if at_ns is not None:
        # What is kept here is of the present, and a past without its newest snapshot is no fault.
        arguments.settings = arguments.settings._replace(cache_folder=None)
    return open_place(place, arguments.settings, terminal, need, store, module, at_ns)


def open_place(
    place: str,
    settings: Settings,
    terminal: Terminal,
    need: Need,
    store: Store | None = None,
    module: str = "",
    at_ns: int | None = None,
) -> Repository:
    """Open the repository at `place` as `open_repository` does, with the keys of `settings`.

    at_ns: as it was at that time; UsageError where the store cannot show it.
    """
    store = store or _limited(open_store(place, settings), settings)
    if at_ns is not None:
        past = store.capability(LocksObjects)
        if past is None:
            store.close()
            raise UsageError(f"{printable(place)} keeps no earlier state for --at; s3: does")
        store = past.as_of(at_ns)
    try:
        repository = _open(store, settings, terminal, module, views=need == "view")
        repository.cache_folder = settings.cache_folder
        if need != "write":
            _ = repository.restore_key
    except RepositoryNotFoundError as error:
        store.close()
        if at_ns is None:
            raise
        raise RepositoryNotFoundError(
            f"there was no repository at {printable(place)} at {local_text(at_ns)}; choose a later "
            "time"
        ) from error
    except BaseException:
        store.close()
        raise
    return repository


def read_key_file(path: str) -> Key:
    """Give the key that file `path` holds; raises UsageError."""
    with (
        os_errors(f"cannot read the key file {printable(path)}"),
        open(path, encoding="ascii", errors="replace") as file,
    ):
        return import_key(file.read(GREATEST_KEY_FILE_BYTES))


def _count_traffic(store: Store, place: str, found: list[Traffic]) -> None:
    counting = store.capability(CountsTraffic)
    if counting is not None:
        counting.traffic = Traffic(place)
        found.append(counting.traffic)


def _folder_store(path: str) -> Store:
    if not os.path.exists(os.path.join(path, "provenance")):
        return LocalStore(path)
    # Imported only where needed: it imports the database.
    from strongroom.storage.owned_folder import open_folder

    return open_folder(path)


def _remote_store(place: RemoteLocation | SshLocation, settings: Settings | None) -> Store:
    # Imported only where needed: it imports the client of storage daemons.
    from strongroom.net.storage.place import open_network, open_socket, open_ssh

    cache_folder = settings.cache_folder if settings else None
    if isinstance(place, SshLocation):
        return open_ssh(place, cache_folder=cache_folder)
    if place.socket_path:
        return open_socket(place, cache_folder=cache_folder)
    folder = settings.identity_folder if settings else None
    if settings is None or not folder:
        raise UsageError(f"{printable(place.text)} requires a certificate; give --identity FOLDER")
    from strongroom.net.identities.identity import Identity

    return open_network(
        place,
        lambda: Identity.load(folder),
        tls_mode=settings.tls_mode,
        cache_folder=cache_folder,
    )


def _limited(store: Store, settings: Settings) -> Store:
    """`store` with the limits of the options, for this process and those that it forks."""
    if not settings.limit_upload and not settings.limit_download:
        return store
    from strongroom.engine.stores.limited import LimitedStore, SharedBucket

    writing, reading = SharedBucket(settings.limit_upload), SharedBucket(settings.limit_download)
    return LimitedStore(store, writing, reading)


def _open(
    store: Store, settings: Settings, terminal: Terminal, module: str, *, views: bool
) -> Repository:
    if settings.key_file:
        return Repository.open(store, read_key_file(settings.key_file), views=views)
    passphrase = given_passphrase(settings, terminal)
    if passphrase is not None:
        meanwhile = partial(import_module, module) if module else None
        try:
            return Repository.open(store, passphrase, meanwhile, views=views)
        except WrongKeyError:
            # Older versions took the mark that an editor put into the file for a part of it.
            if not settings.password_file or not _has_mark(settings.password_file):
                raise
            return Repository.open(store, BYTE_ORDER_MARK + passphrase)
    try:
        return Repository.open(store, None, views=views)
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
