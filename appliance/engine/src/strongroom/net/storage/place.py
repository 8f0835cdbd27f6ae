"""How the place of a repository is named, and how to connect to a storage daemon.

    /mnt/backup/repository                                    a folder
    unix:/run/strongroom-storage/storage.sock[#REPOSITORY]    on the daemon's own machine
    strongroom://HOST[:PORT][/REPOSITORY]                     by TCP, with a certificate

REPOSITORY is the name of the daemon's device or the id of the repository; without, its first one.
Users of other programs write places like `sftp:user@host:/x` or `s3:bucket`. They are rejected: as
a folder of that name they would hold a backup that nobody meant to be here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from blake3 import blake3

from strongroom.errors import UsageError
from strongroom.net.storage.protocol import PROTOCOL_VERSION, StorageHello
from strongroom.net.storage.store import RemoteStore
from strongroom.printable import printable

if TYPE_CHECKING:
    from collections.abc import Callable

    from strongroom.net.channels.channel import Channel
    from strongroom.net.control.messages import TlsMode
    from strongroom.net.identities.identity import Identity

USUAL_PORT: Final = 9103
_UNIX: Final = "unix:"
_NETWORK: Final = "strongroom://"
# A colon before the first slash: a scheme, or a host as scp and rsync write it.
_ELSEWHERE: Final = re.compile(r"[^/]+:")
_SUPPORTED: Final = (
    "a repository is a folder, or at a storage daemon: strongroom://HOST:PORT or unix:SOCKET"
)


@dataclass(frozen=True, slots=True)
class RemotePlace:
    """Where a storage daemon is: a socket's path, or address and port."""

    text: str
    socket_path: str
    address: str
    port: int
    repository: str


def is_remote(place: str) -> bool:
    """Whether a repository is named in one of these ways."""
    return place.startswith((_UNIX, _NETWORK))


def folder_of(place: str) -> str:
    """The folder that a place names. Raises UsageError for what is no folder."""
    shown = printable(place)
    if _ELSEWHERE.match(place):
        raise UsageError(
            f"{shown} names a protocol or a host that is not supported; {_SUPPORTED} (a folder "
            f"whose name holds a colon is written ./NAME)"
        )
    if place.startswith("~"):
        raise UsageError(
            f"{shown} is no path: the shell did not replace the ~; write $HOME (or ./{shown})"
        )
    return place


def parse_place(place: str) -> RemotePlace:
    """Parse a name of one of these forms. Raises UsageError."""
    if place.startswith(_UNIX):
        path, _, repository = place[len(_UNIX) :].partition("#")
        if not path.startswith("/"):
            raise UsageError(
                f"{printable(place)}: the socket's path is absolute, as in unix:/run/x.sock"
            )
        return RemotePlace(place, path, "", 0, repository)
    try:
        parts = urlsplit(place)
        port = parts.port or USUAL_PORT
    except ValueError as error:
        raise UsageError(f"{printable(place)}: {error}") from error
    if not place.startswith(_NETWORK) or not parts.hostname or parts.username or parts.query:
        raise UsageError(f"{printable(place)}: a storage daemon is named as strongroom://HOST:PORT")
    return RemotePlace(place, "", parts.hostname, port, unquote(parts.path.strip("/")))


def open_socket(
    place: RemotePlace, *, cache_folder: bytes | None = None, view_as: str = ""
) -> RemoteStore:
    """The store behind a daemon's local socket; connected at first use."""

    def connect() -> Channel:
        from strongroom.net.channels.local_channel import connect_local

        return connect_local(place.socket_path)

    hello = StorageHello(PROTOCOL_VERSION, place.repository, view_as=view_as)
    return RemoteStore(place.text, connect, hello, _own_cache(cache_folder, place))


def open_network(
    place: RemotePlace,
    load_identity: Callable[[], Identity],
    *,
    server_name: str = "",
    tls_mode: TlsMode = "tls",
    cipher_suites: str = "",
    cache_folder: bytes | None = None,
    job: str = "",
    grant: str = "",
    view_as: str = "",
) -> RemoteStore:
    """The store behind a daemon's port; connected at first use, and again after a fork.

    `load_identity` is called for each connection, so a renewed certificate is used. `server_name`:
    the name required in the daemon's certificate, "" for the address. `job`: connections of the
    same job share a bandwidth limit. `grant`: a statement that allows reading another's snapshot.
    """

    def connect() -> Channel:
        from strongroom.net.channels.connecting import connect as dial

        return dial(
            place.address,
            place.port,
            server_name or place.address,
            load_identity(),
            tls_mode,
            cipher_suites,
            is_early=True,
        )

    hello = StorageHello(PROTOCOL_VERSION, place.repository, job, grant, view_as)
    cache = _own_cache(cache_folder, place)
    return RemoteStore(place.text, connect, hello, cache, is_far=True)


def _own_cache(folder: bytes | None, place: RemotePlace) -> bytes | None:
    if folder is None:
        return None
    # Objects missing from a listing leave the cache, so each repository has a cache of its own.
    name = blake3(place.text.encode()).hexdigest(8)
    return folder + b"/storage/" + name.encode()
