"""TLS on a non-blocking socket: read, write, close, each awaited on the event loop.

asyncio's own TLS keeps 256 KiB of buffer for each connection. Here OpenSSL works on the socket
itself and frees its buffers while nothing is under way, so an idle connection costs little more
than its TLS state; thousands of agents stay connected for days.

A stream belongs to one event loop. At most one task reads and one writes at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable
from typing import Final, TypeVar

from strongroom.net.channels.tls_contexts import forget_errors

READ_BYTES: Final = 64 << 10
_WRITE_BYTES: Final = 64 << 10
# A key update that finds the socket full: rare, and not worth a second watcher of the socket.
_FULL_SECONDS: Final = 0.05

_Result = TypeVar("_Result")


class TlsStream:
    """A connection whose handshake is done by `handshake`."""

    def __init__(self, connection: ssl.SSLSocket) -> None:
        self._connection = connection
        self._reading: asyncio.Future[None] | None = None
        self._writing: asyncio.Future[None] | None = None
        self._is_broken = False
        self._is_read_ended = False

    @classmethod
    async def handshake(
        cls,
        connection: socket.socket,
        context: ssl.SSLContext,
        *,
        server_hostname: str | None = None,
        server_side: bool = True,
    ) -> TlsStream:
        """TLS on a connected, non-blocking socket, which the stream takes over.

        Raises OSError, with the socket closed. It is closed as well when this is cancelled.
        """
        try:
            wrapped = context.wrap_socket(
                connection,
                server_side=server_side,
                server_hostname=server_hostname,
                do_handshake_on_connect=False,
            )
        except (OSError, ValueError) as error:
            connection.close()
            raise ConnectionError(str(error)) from error
        stream = cls(wrapped)
        try:
            await stream._read_until_done(wrapped.do_handshake)
        except BaseException:
            stream.abort()
            raise
        return stream

    @property
    def certificate(self) -> bytes | None:
        """The certificate that the peer presented, DER; None without one."""
        return self._connection.getpeercert(binary_form=True)

    async def receive(self) -> bytes:
        """The available data, at most READ_BYTES; b"" at the end. Raises OSError."""
        return await self._read_until_done(self._received)

    def end_reading(self) -> None:
        """Let `receive` return b"", now and from now on."""
        self._is_read_ended = True
        if self._reading is not None and not self._reading.done():
            self._reading.set_result(None)

    async def send(self, data: bytes) -> None:
        """Write all of it. Raises OSError.

        If it is cancelled, part of `data` may have been sent: nothing more can be sent.
        """
        rest = memoryview(data)
        while rest:
            if self._is_broken or self._is_closed:
                raise ConnectionAbortedError("the connection is closed")
            forget_errors()
            try:
                sent = self._connection.send(rest[:_WRITE_BYTES])
            except ssl.SSLWantWriteError:
                self._is_broken = True
                await self._writable()
                self._is_broken = False
            else:
                rest = rest[sent:]

    async def close(self, linger_seconds: float) -> None:
        """Send close_notify and close; incoming data is discarded for `linger_seconds`.

        Closing a socket with unread data resets the connection, and the peer may lose what it was
        sent last. One that was aborted meanwhile is closed already.
        """
        if self._is_closed:
            return
        try:
            forget_errors()
            with contextlib.suppress(OSError):
                # It is sent at once; not waiting for the peer's answer is no failure.
                self._connection.unwrap()
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(linger_seconds):
                    while await self._discard():
                        pass
        finally:
            self.abort()

    def abort(self) -> None:
        """Close at once; pending reads and writes get ConnectionAbortedError. May be repeated."""
        if self._is_closed:
            return
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._connection)
        loop.remove_writer(self._connection)
        self._connection.close()
        for waiting in (self._reading, self._writing):
            if waiting is not None and not waiting.done():
                waiting.set_exception(ConnectionAbortedError("the connection was closed"))

    @property
    def _is_closed(self) -> bool:
        return self._connection.fileno() < 0

    def _received(self) -> bytes:
        return b"" if self._is_read_ended else self._connection.recv(READ_BYTES)

    async def _discard(self) -> bool:
        """Read the incoming bytes, still encrypted; False at the end."""
        while not self._is_closed:
            try:
                return bool(socket.socket.recv(self._connection, READ_BYTES))
            except BlockingIOError:
                await self._readable()
        return False

    async def _read_until_done(self, step: Callable[[], _Result]) -> _Result:
        while not self._is_closed:
            forget_errors()
            try:
                return step()
            except ssl.SSLWantReadError:
                await self._readable()
            except ssl.SSLWantWriteError:
                await asyncio.sleep(_FULL_SECONDS)
        raise ConnectionAbortedError("the connection is closed")

    async def _readable(self) -> None:
        loop = asyncio.get_running_loop()
        self._reading = loop.create_future()
        loop.add_reader(self._connection, _wake, self._reading)
        try:
            await self._reading
        finally:
            self._reading = None
            if not self._is_closed:
                loop.remove_reader(self._connection)

    async def _writable(self) -> None:
        loop = asyncio.get_running_loop()
        self._writing = loop.create_future()
        loop.add_writer(self._connection, _wake, self._writing)
        try:
            await self._writing
        finally:
            self._writing = None
            if not self._is_closed:
                loop.remove_writer(self._connection)


def _wake(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)
