"""Channels over a Unix socket: the kernel identifies the peer, and no one can eavesdrop.

The permissions of the socket's folder and `admit_local` decide who may connect: root, and the user
that the daemon runs as.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Collection

from typing_extensions import Buffer

from strongroom.base.errors import ConnectionLostError, PeerRefusedError
from strongroom.net.channels.channel import Security
from strongroom.net.channels.plain_stream import PlainChannel, byte_view
from strongroom.net.identities.peer import LOCAL_ROLE, Peer

_CREDENTIALS = struct.Struct("3i")
_CONNECT_SECONDS = 30.0
SECURITY = Security(mode="local")


class LocalChannel(PlainChannel):
    """A channel over a connected Unix socket, which it owns."""

    def __init__(
        self, connection: socket.socket, peer: Peer, security: Security = SECURITY
    ) -> None:
        super().__init__(connection, peer, security)

    def send(self, *parts: Buffer) -> None:
        """Send the parts."""
        self._stream.send([byte_view(part) for part in parts])

    def send_file(self, descriptor: int, offset: int, length: int) -> None:
        """Send a part of a file by the kernel alone."""
        self._stream.send_file(descriptor, offset, length)

    def receive_into(self, view: memoryview) -> None:
        """Fill `view`."""
        self._stream.fill(byte_view(view))

    def close(self) -> None:
        """Release the descriptor."""
        self._stream.socket.close()


def local_channel(connection: socket.socket) -> LocalChannel:
    """A channel over a connected Unix socket, with the peer that the kernel names (SO_PEERCRED)."""
    return LocalChannel(connection, local_peer(user_of(connection)))


def admit_local(connection: socket.socket, further_users: Collection[int] = ()) -> LocalChannel:
    """The same for a daemon: root, its own user and `further_users` (uids) only.

    Raises PeerRefusedError.
    """
    user = user_of(connection)
    if user not in {0, os.geteuid(), *further_users}:
        raise PeerRefusedError(f"user {user} may not use this socket; run the command as root")
    return LocalChannel(connection, local_peer(user))


def connect_local(path: bytes | str) -> LocalChannel:
    """Connect to a daemon of this machine. Raises ConnectionLostError or PeerRefusedError."""
    from strongroom.net.channels.greeting import receive_greeting

    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        connection.settimeout(_CONNECT_SECONDS)
        try:
            connection.connect(os.fsencode(path))
        except OSError as error:
            raise ConnectionLostError(
                f"cannot reach the storage daemon at {os.fsdecode(path)} "
                f"({error.strerror or error}); does it run?"
            ) from error
        channel = local_channel(connection)
        channel.set_timeout(_CONNECT_SECONDS)
        receive_greeting(channel)
        channel.set_timeout(None)
    except BaseException:
        connection.close()
        raise
    return channel


def user_of(connection: socket.socket) -> int:
    """The user id of the peer of a Unix socket."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    user: int = _CREDENTIALS.unpack(credentials)[1]
    return user


def local_peer(user: int) -> Peer:
    """A process of this machine, named by its user."""
    import pwd

    try:
        name = pwd.getpwuid(user).pw_name
    except KeyError:
        name = str(user)
    return Peer(name, LOCAL_ROLE, "")
