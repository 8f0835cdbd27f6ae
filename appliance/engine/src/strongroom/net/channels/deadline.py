"""Reads and writes before authentication: all end by one deadline, however slow the peer is.

A deadline is a moment of clock.elapsed_seconds. Each function leaves the socket with a timeout.
"""

from __future__ import annotations

import socket

from strongroom.base import clock
from strongroom.base.errors import ConnectionLostError
from strongroom.net.channels.plain_stream import lost


def apply_deadline(connection: socket.socket, deadline_seconds: float) -> None:
    """Let the next blocking call end at the deadline; ConnectionLostError when it has passed."""
    left = deadline_seconds - clock.elapsed_seconds()
    if left <= 0:
        raise ConnectionLostError("the other side did not finish its handshake in time")
    connection.settimeout(left)


def peek_byte(connection: socket.socket, deadline_seconds: float) -> bytes:
    """The next byte, left in the socket's buffer (MSG_PEEK); b"" at the end."""
    apply_deadline(connection, deadline_seconds)
    try:
        return connection.recv(1, socket.MSG_PEEK)
    except OSError as error:
        raise lost(error) from error


def receive_before(connection: socket.socket, size: int, deadline_seconds: float) -> bytes:
    """Exactly the next `size` bytes."""
    received = bytearray()
    while len(received) < size:
        apply_deadline(connection, deadline_seconds)
        try:
            more = connection.recv(size - len(received))
        except OSError as error:
            raise lost(error) from error
        if not more:
            raise ConnectionLostError("the other side ended the connection during the handshake")
        received += more
    return bytes(received)


def send_before(connection: socket.socket, data: bytes, deadline_seconds: float) -> None:
    """Send all of `data`."""
    apply_deadline(connection, deadline_seconds)
    try:
        connection.sendall(data)
    except OSError as error:
        raise lost(error) from error
