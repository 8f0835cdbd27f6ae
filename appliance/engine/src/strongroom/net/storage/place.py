"""The stores of places that speak the storage protocol: daemons, and hosts that ssh reaches.

`strongroom.engine.stores.place` says how they are named. A connection is made at first use, and
again after a fork.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from blake3 import blake3

from strongroom.base import clock
from strongroom.base.errors import UsageError
from strongroom.base.printable import printable
from strongroom.engine.stores.place import RemoteLocation, SshLocation, place_of
from strongroom.net.storage.lasting_store import LastingStore
from strongroom.net.storage.protocol import PROTOCOL_VERSION, StorageHello
from strongroom.net.storage.store import RemoteStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from strongroom.net.channels.channel import Channel
    from strongroom.net.control.messages import TlsMode
    from strongroom.net.identities.identity import Identity


def parse_place(text: str) -> RemoteLocation:
    """The storage daemon that `text` names. Raises UsageError, also for any other place."""
    place = place_of(text)
    if not isinstance(place, RemoteLocation):
        raise UsageError(
            f"{printable(text)}: a storage daemon is named as strongroom://HOST:PORT or unix:SOCKET"
        )
    return place


def open_socket(
    place: RemoteLocation, *, cache_folder: bytes | None = None, view_as: str = ""
) -> RemoteStore:
    """The store behind a daemon's local socket; connected at first use."""

    def connect() -> Channel:
        from strongroom.net.channels.local_channel import connect_local

        return connect_local(place.socket_path)

    hello = StorageHello(PROTOCOL_VERSION, place.repository, view_as=view_as)
    return RemoteStore(place.text, connect, hello, _own_cache(cache_folder, place.text))


def open_network(
    place: RemoteLocation,
    load_identity: Callable[[], Identity],
    *,
    server_name: str = "",
    tls_mode: TlsMode = "tls",
    cipher_suites: str = "",
    cache_folder: bytes | None = None,
    job: str = "",
    grant: str = "",
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

    hello = StorageHello(PROTOCOL_VERSION, place.repository, job, grant)
    cache = _own_cache(cache_folder, place.text)
    return RemoteStore(place.text, connect, hello, cache, is_far=True)


def open_ssh(place: SshLocation, *, cache_folder: bytes | None = None) -> RemoteStore:
    """The store of a folder behind ssh, served by `strongroom serve` there."""

    def connect() -> Channel:
        from strongroom.net.channels.ssh_channel import connect_ssh

        return connect_ssh(place)

    cache = _own_cache(cache_folder, place.text)
    hello = StorageHello(PROTOCOL_VERSION, job=clock.random_bytes(16).hex())
    return LastingStore(place.text, connect, hello, cache, is_far=True)


def _own_cache(folder: bytes | None, place: str) -> bytes | None:
    if folder is None:
        return None
    # Objects missing from a listing leave the cache, so each repository has its own cache.
    return folder + b"/storage/" + blake3(place.encode()).hexdigest(8).encode()
