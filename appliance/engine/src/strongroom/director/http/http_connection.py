"""The HTTP of one connection: uvicorn's protocol on our TLS.

uvicorn parses requests, runs the application and ends with its server; this module moves the bytes
between it and a TlsStream, and gives requests the peer's certificate. A request for the WebSocket
of an agent ends the HTTP: `serve` returns it, and the stream continues without uvicorn.

A connection without a complete request head within REQUEST_HEAD_TIMEOUT_SECONDS is closed, however
slowly it arrives, and so is one that is idle for that long.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any, Final, NamedTuple

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from strongroom.director.http.cross_site import Headers, gathered
from strongroom.director.http.limits import CertifiedPeer
from strongroom.director.http.tls_stream import TlsStream
from strongroom.service.log_lines import LimitedLines

AGENTS_PATH: Final = "/api/v1/agents/connect"
REQUEST_HEAD_TIMEOUT_SECONDS = 30.0
LARGEST_HEAD_BYTES: Final = 512 << 10
# An answer waits for its reader above this.
_MOST_UNSENT_BYTES: Final = 64 << 10


class Origin(NamedTuple):
    """Where requests come from; `certified`: the peer in its certificate, None without."""

    address: str
    port: int
    certified: CertifiedPeer | None


class WebSocketRequest(NamedTuple):
    """A request for the WebSocket of an agent, and all bytes received up to now."""

    received: bytes
    headers: Headers


class HttpConnection(H11Protocol):
    """One connection; the stream stays open when `serve` returns."""

    # None before the first request.
    cycle: RequestResponseCycle | None  # type: ignore[assignment]

    def __init__(
        self, server: uvicorn.Server, stream: TlsStream, origin: Origin, not_http: LimitedLines
    ) -> None:
        # The handlers find the certificate in the state of their request.
        super().__init__(server.config, server.server_state, {"certified": origin.certified})
        self._origin = origin
        self._stream = stream
        self._not_http = not_http
        self._deadline: asyncio.TimerHandle | None = None
        self._wanted: WebSocketRequest | None = None

    async def serve(self) -> WebSocketRequest | None:
        """Answer requests until either side ends, or one is for a WebSocket. Raises OSError."""
        transport = _StreamTransport(self._stream, self, self._origin)
        self.connection_made(transport)
        try:
            while self._wanted is None:
                await transport.may_read.wait()
                data = await self._stream.receive()
                if not data:
                    break
                # After its last request a peer has nothing to say; that is no invalid request.
                if self.conn.their_state not in (h11.MUST_CLOSE, h11.CLOSED):
                    self.data_received(data)
            if self._wanted is not None or transport.is_closing():
                await transport.flush()
        except h11.ProtocolError as error:
            self._not_http.warn("%s: Invalid HTTP request: %s", self._origin.address, error)
        finally:
            self._end_deadline()
            if self._wanted is None:
                self.connection_lost(None)
            self.connections.discard(self)
            transport.detach()
        return self._wanted

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Await the first request."""
        super().connection_made(transport)
        self._begin_deadline()

    def handle_events(self) -> None:
        """Handle what has arrived; a request that is under way is not limited by the deadline."""
        super().handle_events()
        if self.cycle is not None and not self.cycle.response_complete:
            self._end_deadline()

    def on_response_complete(self) -> None:
        """Await the next request."""
        self._end_deadline()
        self._begin_deadline()
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer what is not an HTTP, unless an answer has begun already, and close."""
        self._not_http.warn(
            "%s: Invalid HTTP request: %s", self._origin.address, sys.exception() or msg
        )
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.close()

    def shutdown(self) -> None:
        """Read no more requests; an active one is answered. Raises nothing, in no state of h11."""
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()
        else:
            self.cycle.keep_alive = False

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """Let `serve` return a request for the WebSocket of an agent; there is no other.

        It is the first on its connection: behind an answer it would be found while nothing arrives
        that lets `serve` look at it.
        """
        if self.scope["path"] != AGENTS_PATH or self.cycle is not None:
            self.send_400_response("There is no WebSocket at this path, or after a request.")
            return
        lines = [b"%b %b HTTP/1.1" % (event.method, event.target)]
        lines += [b"%b: %b" % header for header in event.headers]
        early, _ = self.conn.trailing_data
        received = b"\r\n".join(lines) + b"\r\n\r\n" + early
        self._wanted = WebSocketRequest(received, gathered(event.headers))

    def _begin_deadline(self) -> None:
        self._deadline = self.loop.call_later(REQUEST_HEAD_TIMEOUT_SECONDS, self.transport.close)

    def _end_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class _StreamTransport(asyncio.Transport):
    """A TlsStream as uvicorn uses it."""

    def __init__(self, stream: TlsStream, protocol: HttpConnection, origin: Origin) -> None:
        # The latter two say that this is https, from where.
        super().__init__({"peername": (origin.address, origin.port), "sslcontext": stream})
        self.may_read = asyncio.Event()
        self.may_read.set()
        self._stream = stream
        self._protocol: HttpConnection | None = protocol
        # As they came: an answer may be of 25 MB, and each copy of it costs.
        self._unsent: list[bytes] = []
        self._unsent_bytes = 0
        self._sending: asyncio.Task[None] | None = None
        self._is_closing = False

    def write(self, data: Any) -> None:
        """Send in the background; uvicorn is paused while too much waits."""
        if self._is_closing or not data:
            return
        self._unsent.append(data)
        self._unsent_bytes += len(data)
        if self._sending is None:
            self._sending = asyncio.create_task(self._send())
        if self._unsent_bytes > _MOST_UNSENT_BYTES and self._protocol is not None:
            self._protocol.pause_writing()

    def close(self) -> None:
        """Read no more: `receive` of the stream returns b"", and what was written is sent."""
        self._is_closing = True
        self.may_read.set()
        self._stream.end_reading()

    def is_closing(self) -> bool:
        """Whether it was closed."""
        return self._is_closing

    def pause_reading(self) -> None:
        """Leave what arrives in the socket."""
        if not self._is_closing:
            self.may_read.clear()

    def resume_reading(self) -> None:
        """Read again."""
        self.may_read.set()

    async def flush(self) -> None:
        """Return when all is sent, or cannot be."""
        if self._sending is not None:
            await self._sending

    def detach(self) -> None:
        """Send nothing more; the stream is used without this."""
        self._protocol = None
        if self._sending is not None:
            self._sending.cancel()

    async def _send(self) -> None:
        try:
            while self._unsent:
                # With one element this is no copy.
                data = b"".join(self._unsent)
                self._unsent, self._unsent_bytes = [], 0
                await self._stream.send(data)
                if self._protocol is not None:
                    self._protocol.resume_writing()
        except OSError:
            # Anyone who reads must notice as well, also while reading is paused.
            self._stream.abort()
            self.close()
        finally:
            self._sending = None
