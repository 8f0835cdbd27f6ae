"""A connection between two daemons, whatever protects it: the interface of all channels.

A channel carries bytes in order. It is blocking, and used by at most one thread that sends and one
that receives at a time; they may be two. A third may call `shutdown` at any moment, which ends
both with ConnectionLostError; `close` releases the descriptor, so only the owner calls it, when no
thread uses the channel any more.

Every byte was written by the peer and arrives once and in order, with one exception: in mode "off"
the length and position of the bytes of `send_file` and of the content of `send_content` are
authenticated, their content is not. Only data that the receiver verifies (stored objects) is sent
that way.

An end in the middle of a message, a stall beyond the timeout and a broken connection raise
ConnectionLostError; forged bytes raise PeerRefusedError. After either only `close` may be called.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import asdict, dataclass
from typing import Any, Literal, Protocol

from typing_extensions import Buffer

from strongroom.net.identities.peer import Peer

ChannelMode = Literal["off", "tls", "ktls", "local", "ssh"]

# Keepalive detects a vanished machine after two minutes while nothing is sent; while something is,
# net.channels.liveness does.
_KEEPALIVE_IDLE_SECONDS = 60
_KEEPALIVE_INTERVAL_SECONDS = 15
_KEEPALIVE_COUNT = 4
_TIMEOUT = struct.Struct("ll")


@dataclass(frozen=True, slots=True)
class Security:
    """What protects a channel, as negotiated.

    `mode`: "ktls" when the kernel does TLS in at least one direction. `cipher`: TLS suite, or what
    authenticates records. `ktls_send`, `ktls_receive`: proven by the kernel for this very socket;
    `ktls_counted`: its counters in /proc/net/tls_stat say so too. `peer_ktls_send`,
    `peer_ktls_receive`: the same of the server's end (known to clients only). `warning`: what the
    operator should know, such as kTLS that was requested and is not available; "" for nothing.
    """

    mode: ChannelMode
    cipher: str = ""
    ktls_send: bool = False
    ktls_receive: bool = False
    ktls_counted: bool = False
    peer_ktls_send: bool = False
    peer_ktls_receive: bool = False
    warning: str = ""

    def report(self) -> dict[str, Any]:
        """The same as a dict, for a job's report."""
        return asdict(self)


class Channel(Protocol):
    """Carries bytes both ways. `peer`: authenticated; `security`: what protects the channel."""

    peer: Peer
    security: Security

    def send(self, *parts: Buffer) -> None:
        """Send the parts in order; they may be changed once this returns."""
        ...

    def send_content(self, start: Buffer, content: Buffer) -> None:
        """Send `start`, then `content`, which the peer verifies by a digest."""
        self.send(start, content)

    def send_file(self, descriptor: int, offset: int, length: int) -> None:
        """Send `length` bytes of a file from `offset`; by the kernel alone where that is safe."""
        ...

    def receive_exactly(self, size: int) -> bytes:
        """The next `size` bytes; the caller bounds `size`."""
        buffer = bytearray(size)
        self.receive_into(memoryview(buffer))
        return bytes(buffer)

    def receive_into(self, view: memoryview) -> None:
        """Fill a writable view of bytes."""
        ...

    def wait_readable(self, timeout_seconds: float) -> bool:
        """Wait until bytes or the end can be received; False on timeout."""
        ...

    def set_timeout(self, seconds: float | None) -> None:
        """How long sending and receiving wait without progress; None for no limit."""
        ...

    def fileno(self) -> int:
        """The descriptor of the socket."""
        ...

    def shutdown(self) -> None:
        """End the connection at once, from any thread; threads that wait on it are woken."""
        ...

    def close(self) -> None:
        """Announce the end where that does not block, and release the descriptor."""
        ...


def tune_socket(connection: socket.socket) -> None:
    """Send small messages at once (TCP_NODELAY), and detect a vanished peer (keepalive)."""
    if connection.family == socket.AF_UNIX:
        return
    tcp = socket.IPPROTO_TCP
    connection.setsockopt(tcp, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(tcp, socket.TCP_KEEPIDLE, _KEEPALIVE_IDLE_SECONDS)
    connection.setsockopt(tcp, socket.TCP_KEEPINTVL, _KEEPALIVE_INTERVAL_SECONDS)
    connection.setsockopt(tcp, socket.TCP_KEEPCNT, _KEEPALIVE_COUNT)


def set_kernel_timeouts(
    connection: socket.socket, receive_seconds: float, send_seconds: float
) -> None:
    """Bound every blocking call on a socket by the kernel; no extra system call is needed then."""
    connection.settimeout(None)
    for option, seconds in (
        (socket.SO_RCVTIMEO, receive_seconds),
        (socket.SO_SNDTIMEO, send_seconds),
    ):
        whole, rest = divmod(max(seconds, 0.001), 1)
        packed = _TIMEOUT.pack(int(whole), int(rest * 1_000_000))
        connection.setsockopt(socket.SOL_SOCKET, option, packed)


def wake(connection: socket.socket) -> None:
    """Shut both directions down; every thread that waits on the socket returns."""
    try:
        # The method of the plain socket: that of SSLSocket would let a reader continue without TLS.
        socket.socket.shutdown(connection, socket.SHUT_RDWR)
    except OSError:
        # It is disconnected already.
        return
