"""Channels over TLS, with the records made by OpenSSL or, where verified, by the kernel.

OpenSSL's objects must not be used by two threads at once, but one thread of ours sends while
another receives. So each call into OpenSSL is made with `_turn` held, on a non-blocking socket, and
never blocks; waiting is done by poll, without the lock. A sender that waited with the lock held
would keep the receiver from draining what the peer must send before it reads on: a deadlock.
`_queue` is held while waiting for `_turn`, so the waiting thread comes next even if the other asks
again at once.
"""

from __future__ import annotations

import os
import select
import ssl
import threading
from collections.abc import Callable, Iterator

from typing_extensions import Buffer

from strongroom.base.errors import ConnectionLostError, PeerRefusedError
from strongroom.net.channels.channel import Channel, Security, wake
from strongroom.net.channels.liveness import PeerWatch
from strongroom.net.channels.plain_stream import byte_view, ended, lost
from strongroom.net.channels.tls_contexts import forget_errors
from strongroom.net.identities.peer import Peer

# The size of one record: smaller parts are joined rather than sent one by one.
_RECORD_BYTES = 16 << 10
# The most that one turn encrypts or decrypts, so that the other thread waits a fraction of a
# millisecond.
_TURN_BYTES = 256 << 10
_SENDFILE_BYTES = 1 << 20
# The connection broke in the handshake: towards us, or (an alert) towards the peer.
_BROKEN_REASONS = ("UNEXPECTED_EOF_WHILE_READING", "TLSV1_ALERT_DECODE_ERROR")


class TlsChannel(Channel):
    """A Channel over a TLS socket (handshake done), which it owns."""

    def __init__(self, connection: ssl.SSLSocket, peer: Peer, security: Security) -> None:
        self._connection = connection
        self.peer = peer
        self.security = security
        self._turn = threading.Lock()
        self._queue = threading.Lock()
        self._timeout_ms: float | None = None
        self._sending = _Pollers(connection)
        self._receiving = _Pollers(connection)
        connection.settimeout(0)

    def send(self, *parts: Buffer) -> None:
        """Send the parts; small ones in one record with what follows."""
        for view in _joined([byte_view(part) for part in parts]):
            for start in range(0, len(view), _TURN_BYTES):
                self._send_piece(view[start : start + _TURN_BYTES])

    def send_file(self, descriptor: int, offset: int, length: int) -> None:
        """Send a part of a file: by the kernel alone if it verifiably encrypts what we send."""
        if self.security.ktls_send:
            self._send_by_kernel(descriptor, offset, length)
            return
        buffer = memoryview(bytearray(min(length, _TURN_BYTES)))
        while length:
            count = os.preadv(descriptor, [buffer[: min(length, len(buffer))]], offset)
            _require_progress(count)
            self._send_piece(buffer[:count])
            offset += count
            length -= count

    def receive_into(self, view: memoryview) -> None:
        """Fill `view`."""
        view = byte_view(view)
        filled = 0
        while filled < len(view):
            rest = view[filled:]
            count = self._until_done(self._receiving, self._receive_records, rest)
            if not count:
                raise ended(clean=not filled)
            filled += count

    def wait_readable(self, timeout_seconds: float) -> bool:
        """Wait for bytes or the end; a part of a record that is not whole counts as well."""
        with self._queue:
            self._turn.acquire()
        try:
            pending = self._connection.pending()
        finally:
            self._turn.release()
        return bool(pending or self._receiving.readable.poll(max(0.0, timeout_seconds) * 1000))

    def set_timeout(self, seconds: float | None) -> None:
        """Bound every wait."""
        self._timeout_ms = None if seconds is None else seconds * 1000

    def fileno(self) -> int:
        """The descriptor of the socket."""
        return self._connection.fileno()

    def shutdown(self) -> None:
        """End the connection, from any thread."""
        wake(self._connection)

    def close(self) -> None:
        """Send close_notify if that does not block, and close the socket."""
        try:
            self._connection.unwrap()
        except (OSError, ValueError):
            # close_notify was sent, or the peer is gone; its answer is not awaited.
            pass
        finally:
            self._connection.close()

    def _send_piece(self, view: memoryview) -> None:
        while len(view):
            # A repeated call must name the same bytes: OpenSSL may have sent a part of them.
            sent = self._until_done(self._sending, self._connection.send, view)
            view = view[sent:]

    def _receive_records(self, view: memoryview) -> int:
        """Fill `view` from the records that are there; 0 at the end. One call gives one at most."""
        wanted = min(len(view), _TURN_BYTES)
        filled = 0
        try:
            while filled < wanted:
                count = self._connection.recv_into(view[filled:wanted])
                if not count:
                    break
                filled += count
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            if not filled:
                raise
        return filled

    def _send_by_kernel(self, descriptor: int, offset: int, length: int) -> None:
        socket_descriptor = self._connection.fileno()
        while length:
            size = min(length, _SENDFILE_BYTES)
            sent = self._until_done(
                self._sending, os.sendfile, socket_descriptor, descriptor, offset, size
            )
            _require_progress(sent)
            offset += sent
            length -= sent

    def _until_done(self, pollers: _Pollers, call: Callable[..., int], *values: object) -> int:
        """Repeat `call`, which never blocks, until it completes."""
        while True:
            with self._queue:
                self._turn.acquire()
            try:
                forget_errors()
                return call(*values)
            except ssl.SSLWantReadError:
                waiting = pollers.readable
            except (ssl.SSLWantWriteError, BlockingIOError):
                waiting = pollers.writable
            except ssl.SSLError as error:
                raise tls_failure(error) from error
            except OSError as error:
                raise lost(error) from error
            except ValueError as error:
                raise ConnectionLostError("the connection was closed") from error
            finally:
                self._turn.release()
            events = pollers.watch.poll(waiting, self._timeout_ms)
            if not events:
                raise lost(TimeoutError())
            if waiting is pollers.writable and not events[0][1] & ~select.POLLRDHUP:
                # It reads nothing and has closed its sending side: waiting is useless.
                raise ended(clean=False)


class _Pollers:
    """What one thread waits with; a poll object serves one thread at a time."""

    def __init__(self, connection: ssl.SSLSocket) -> None:
        self.watch = PeerWatch(connection)
        self.readable = select.poll()
        self.readable.register(connection, select.POLLIN)
        self.writable = select.poll()
        self.writable.register(connection, select.POLLOUT | select.POLLRDHUP)


def _joined(parts: list[memoryview]) -> Iterator[memoryview]:
    """The same bytes, with parts smaller than a record joined to fill records."""
    small: list[memoryview] = []
    size = 0
    for part in parts:
        room = _RECORD_BYTES - size
        if small and len(part) >= room:
            yield memoryview(b"".join([*small, part[:room]]))
            small, size, rest = [], 0, part[room:]
        else:
            rest = part
        if len(rest) >= _RECORD_BYTES:
            yield rest
        elif len(rest):
            small.append(rest)
            size += len(rest)
    if small:
        yield memoryview(b"".join(small))


def tls_failure(error: ssl.SSLError) -> ConnectionLostError | PeerRefusedError:
    """The error for an end without close_notify, a failed handshake, or a forged record."""
    if isinstance(error, ssl.SSLEOFError) or error.reason in _BROKEN_REASONS:
        return ended(clean=False)
    reason = (error.reason or str(error)).replace("_", " ").lower()
    detail = getattr(error, "verify_message", "")
    return PeerRefusedError(
        f"TLS failed: {reason}{f' ({detail})' if detail else ''}; the certificates of both sides "
        "must be of the same authority, and valid now"
    )


def _require_progress(count: int) -> None:
    if not count:
        raise ConnectionLostError("a file that was being sent became shorter")
