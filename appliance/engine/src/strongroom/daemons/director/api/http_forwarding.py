"""Forwards the requests of one HTTP connection to uvicorn, and its answers back.

uvicorn listens on a private socket and serves one connection for each of ours. Every forwarded
request carries TOKEN_HEADER with the token of its connection, by which `request_origin` identifies
the sender; that header of a client is removed. Both sides are parsed by h11, so both agree on where
a request ends.

A connection without a complete request head within REQUEST_HEAD_TIMEOUT_SECONDS is closed, however
slowly it arrives, and so is one that is idle for that long.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import h11

from strongroom.daemons.director.api.request_origin import TOKEN_HEADER

if TYPE_CHECKING:
    from collections.abc import Callable

    from strongroom.daemons.director.api.tls_stream import TlsStream

REQUEST_HEAD_TIMEOUT_SECONDS = 30.0
LARGEST_HEAD_BYTES: Final = 512 << 10
_READ_BYTES: Final = 64 << 10


@dataclass(frozen=True, slots=True)
class RequestHead:
    """The first request of a connection, and all bytes up to its end."""

    request: h11.Request
    received: bytes

    @property
    def wants_websocket(self) -> bool:
        """Whether the connection is to become a WebSocket."""
        return any(
            name == b"upgrade" and value.strip().lower() == b"websocket"
            for name, value in self.request.headers
        )

    @property
    def path(self) -> str:
        """Path of the request, without a query."""
        return self.request.target.partition(b"?")[0].decode("ascii", "replace")


class HttpConnection:
    """The HTTP of one TLS connection. `token`: identifies the connection to uvicorn's side."""

    def __init__(self, stream: TlsStream, token: str) -> None:
        self._stream = stream
        self._token = token.encode("ascii")
        self._client = h11.Connection(h11.SERVER, max_incomplete_event_size=LARGEST_HEAD_BYTES)
        self._server = h11.Connection(h11.CLIENT, max_incomplete_event_size=LARGEST_HEAD_BYTES)

    async def head(self) -> RequestHead | None:
        """The first request; None when none comes.

        Raises OSError, h11.ProtocolError for invalid HTTP.
        """
        received = bytearray()
        request = await self._next_request(received.extend)
        return None if request is None else RequestHead(request, bytes(received))

    async def refuse(self) -> None:
        """Answer invalid HTTP. Raises OSError."""
        if self._client.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return
        text = b"Invalid HTTP request received."
        headers = [
            ("content-type", "text/plain; charset=utf-8"),
            ("content-length", str(len(text))),
            ("connection", "close"),
        ]
        for event in (
            h11.Response(status_code=400, headers=headers, reason=b"Bad Request"),
            h11.Data(data=text),
            h11.EndOfMessage(),
        ):
            await self._answer(event)

    async def forward(
        self, first: h11.Request, socket_path: str, on_idle: Callable[[bool], None]
    ) -> None:
        """Forward this request and those that follow, until either side ends.

        `on_idle` is called when no request is active, and when one is again. Raises OSError,
        h11.ProtocolError.
        """
        reader, writer = await asyncio.open_unix_connection(socket_path)
        try:
            request: h11.Request | None = first
            while request is not None:
                if not await self._exchange(request, reader, writer):
                    return
                on_idle(True)
                request = await self._next_request()
                on_idle(False)
        finally:
            writer.close()

    async def _next_request(
        self, keep: Callable[[bytes], None] | None = None
    ) -> h11.Request | None:
        try:
            async with asyncio.timeout(REQUEST_HEAD_TIMEOUT_SECONDS):
                while (event := self._client.next_event()) is h11.NEED_DATA:
                    data = await self._stream.receive()
                    if keep is not None:
                        keep(data)
                    self._client.receive_data(data)
        except TimeoutError:
            return None
        return event if isinstance(event, h11.Request) else None

    async def _exchange(
        self, request: h11.Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Forward a request and its answer; returns whether another may follow."""
        await self._ask(self._marked(request), writer)
        sending = asyncio.create_task(self._send_body(writer))
        answering = asyncio.create_task(self._pass_answer(reader))
        try:
            await asyncio.wait((sending, answering), return_when=asyncio.FIRST_COMPLETED)
            if not answering.done():
                # The client is gone, which ends `sending`; uvicorn's side must notice.
                sending.result()
                return False
            answering.result()
        finally:
            await _end(sending, answering)
        if not (
            self._client.our_state is h11.DONE
            and self._client.their_state is h11.DONE
            and self._server.our_state is h11.DONE
            and self._server.their_state is h11.DONE
        ):
            return False
        self._client.start_next_cycle()
        self._server.start_next_cycle()
        return True

    def _marked(self, request: h11.Request) -> h11.Request:
        left_out = (TOKEN_HEADER, b"upgrade")
        headers = [(name, value) for name, value in request.headers if name not in left_out]
        headers.append((TOKEN_HEADER, self._token))
        # HTTP/1.0 has no such header, and the forwarded request is 1.1.
        if not any(name == b"host" for name, _ in headers):
            headers.append((b"host", b""))
        return h11.Request(method=request.method, target=request.target, headers=headers)

    async def _send_body(self, writer: asyncio.StreamWriter) -> None:
        """Forward the body; returns only when the client is gone."""
        while True:
            event = self._client.next_event()
            if event is h11.NEED_DATA:
                self._client.receive_data(await self._stream.receive())
            elif isinstance(event, (h11.Data, h11.EndOfMessage)):
                await self._ask(event, writer)
                if isinstance(event, h11.EndOfMessage):
                    break
            else:
                return
        # Early bytes belong to its next request; nothing more is read ahead.
        data = await self._stream.receive()
        self._client.receive_data(data)
        if data:
            await asyncio.Event().wait()

    async def _pass_answer(self, reader: asyncio.StreamReader) -> None:
        while True:
            event = self._server.next_event()
            if event is h11.NEED_DATA:
                self._server.receive_data(await reader.read(_READ_BYTES))
            elif isinstance(event, (h11.InformationalResponse, h11.Response, h11.Data)):
                await self._answer(event)
            elif isinstance(event, h11.EndOfMessage):
                await self._answer(event)
                return
            else:
                raise ConnectionResetError("the API's server ended without an answer")

    async def _ask(self, event: h11.Event, writer: asyncio.StreamWriter) -> None:
        if data := self._server.send(event):
            writer.write(data)
            await writer.drain()

    async def _answer(self, event: h11.Event) -> None:
        if data := self._client.send(event):
            await self._stream.send(data)


async def _end(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
