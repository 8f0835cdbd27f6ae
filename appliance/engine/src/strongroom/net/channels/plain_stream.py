"""Unprotected bytes on a blocking socket: the transport of the modes "local" and "off".

Timeouts are the kernel's (SO_RCVTIMEO), so waiting costs no system call of its own, and a whole
buffer is filled by one call where the bytes are there. They are short, so that a longer wait checks
in between whether the peer is still alive.

Before a peer is authenticated all reads and writes end by one deadline, a moment of
clock.elapsed_seconds, however slow it is; those functions leave the socket with a timeout.
"""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Sequence

from strongroom.base import clock
from strongroom.base.errors import ConnectionLostError
from strongroom.net.channels import liveness
from strongroom.net.channels.channel import Channel, Security, set_kernel_timeouts, wake
from strongroom.net.channels.liveness import PeerWatch
from strongroom.net.identities.peer import Peer

# The most that the kernel takes in one sendmsg.
_GREATEST_PARTS = 1024
# How soon a blocked sender notices that the peer has closed.
_SEND_LOOK_SECONDS = 1.0


class PlainStream:
    """One thread may send while another receives; they share nothing."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self._readable = select.poll()
        self._readable.register(connection, select.POLLIN)
        self._writable = select.poll()
        self._writable.register(connection, select.POLLOUT | select.POLLRDHUP)
        self._receive_watch = PeerWatch(connection)
        self._send_watch = PeerWatch(connection)
        self.set_timeout(None)

    def set_timeout(self, seconds: float | None) -> None:
        """How long sending and receiving wait without progress; None for no limit."""
        self._timeout_seconds = seconds
        most = liveness.LOOK_SECONDS if seconds is None else max(seconds, 0.001)
        self._receive_look_seconds = min(liveness.LOOK_SECONDS, most)
        self._send_look_seconds = min(_SEND_LOOK_SECONDS, most)
        set_kernel_timeouts(self.socket, self._receive_look_seconds, self._send_look_seconds)

    def send(self, parts: Sequence[memoryview]) -> None:
        """Send all of `parts` (views of bytes)."""
        left = [part for part in parts if len(part)]
        looks = 0
        while left:
            try:
                left = _after(left, self.socket.sendmsg(left[:_GREATEST_PARTS]))
                looks = 0
            except BlockingIOError:
                looks += 1
                self._look_before_sending_on(looks)
            except OSError as error:
                raise lost(error) from error

    def send_file(self, descriptor: int, offset: int, length: int) -> None:
        """Let the kernel send a part of a file."""
        looks = 0
        while length:
            try:
                sent = os.sendfile(self.socket.fileno(), descriptor, offset, length)
            except BlockingIOError:
                looks += 1
                self._look_before_sending_on(looks)
                continue
            except OSError as error:
                raise lost(error) from error
            if not sent:
                raise ConnectionLostError("a file that was being sent became shorter")
            looks = 0
            offset += sent
            length -= sent

    def fill(self, view: memoryview) -> None:
        """Fill `view`; ConnectionLostError, clean if the end came before the first byte."""
        filled = looks = 0
        while filled < len(view):
            try:
                count = self.socket.recv_into(view[filled:], 0, socket.MSG_WAITALL)
            except BlockingIOError:
                looks += 1
                self._require_time(looks * self._receive_look_seconds)
                self._receive_watch.look()
                continue
            except OSError as error:
                raise lost(error) from error
            if not count:
                raise ended(clean=not filled)
            looks = 0
            filled += count

    def _look_before_sending_on(self, looks: int) -> None:
        """ConnectionLostError when waiting is useless, after `looks` checks without progress."""
        events = self._writable.poll(0)
        if events and not events[0][1] & ~select.POLLRDHUP:
            # It reads nothing and has closed its sending side: waiting is useless.
            raise ended(clean=False)
        self._require_time(looks * self._send_look_seconds)
        self._send_watch.look()

    def _require_time(self, waited_seconds: float) -> None:
        if self._timeout_seconds is not None and waited_seconds >= self._timeout_seconds - 0.001:
            raise lost(TimeoutError())

    def wait_readable(self, timeout_seconds: float) -> bool:
        """Whether bytes, or the end, come within the time."""
        return bool(self._readable.poll(max(0.0, timeout_seconds) * 1000))


class PlainChannel(Channel):
    """Base of channels over a PlainStream."""

    def __init__(self, connection: socket.socket, peer: Peer, security: Security) -> None:
        self._stream = PlainStream(connection)
        self.peer = peer
        self.security = security

    def wait_readable(self, timeout_seconds: float) -> bool:
        """Wait for bytes or the end."""
        return self._stream.wait_readable(timeout_seconds)

    def set_timeout(self, seconds: float | None) -> None:
        """Bound every wait."""
        self._stream.set_timeout(seconds)

    def fileno(self) -> int:
        """The descriptor of the socket."""
        return self._stream.socket.fileno()

    def shutdown(self) -> None:
        """End the connection, from any thread."""
        wake(self._stream.socket)


def ended(*, clean: bool) -> ConnectionLostError:
    """The error for an end of the stream."""
    if clean:
        return ConnectionLostError("the other side ended the connection", clean=True)
    return ConnectionLostError("the connection broke in the middle of a message")


def lost(error: OSError) -> ConnectionLostError:
    """The error for a failed system call on a connection."""
    if isinstance(error, (BlockingIOError, TimeoutError)):
        return ConnectionLostError("the connection stalled: nothing moved within the time allowed")
    return ConnectionLostError(f"the connection broke ({error.strerror or error})")


def byte_view(part: object) -> memoryview:
    """Any buffer as a view of its bytes."""
    view = memoryview(part)  # type: ignore[arg-type]
    return view if view.format == "B" and view.ndim == 1 and view.contiguous else view.cast("B")


def _after(parts: list[memoryview], sent: int) -> list[memoryview]:
    """What is left of `parts` when `sent` bytes of them were sent."""
    for number, part in enumerate(parts):
        if sent < len(part):
            return [part[sent:], *parts[number + 1 :]]
        sent -= len(part)
    return []


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
