"""A WebSocket with an agent, whichever side dialled: messages over TLS, heartbeats, the close.

The protocol is the sans-I/O layer of the `websockets` library; this module moves its bytes. Data is
read only when a task waits for a message, so a flood stays in the agent's own socket buffer. An
agent that sends nothing for HEARTBEAT_SECONDS after a ping, while a message is awaited, is
disconnected.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Iterable
from typing import Final

from websockets.client import ClientProtocol
from websockets.exceptions import InvalidState
from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import Event, State
from websockets.server import ServerProtocol
from websockets.uri import parse_uri

from strongroom.director.http.tls_stream import TlsStream
from strongroom.net.control.messages import LARGEST_MESSAGE_BYTES

HEARTBEAT_SECONDS: Final = 30.0
LINGER_SECONDS: Final = 2.0
# How long an agent that is there takes to answer.
ANSWER_SECONDS: Final = 3.0

# The library logs each opened and closed connection, which our own log lines cover.
_protocol_log = logging.getLogger(f"{__name__}.protocol")
_protocol_log.setLevel(logging.ERROR)


class AgentSocket:
    """An open WebSocket. One task receives; any may send."""

    def __init__(
        self,
        stream: TlsStream,
        protocol: ServerProtocol | ClientProtocol,
        received: Iterable[Event] = (),
    ) -> None:
        self._stream = stream
        self._protocol = protocol
        self._sending = asyncio.Lock()
        self._messages: deque[bytes] = deque()
        self._fragments = bytearray()
        self._is_ended = False
        self._is_receiving = False
        self._is_answered = True
        self._pinging: asyncio.Task[None] | None = None
        self._heard = asyncio.Event()
        self._timer = asyncio.get_running_loop().call_later(HEARTBEAT_SECONDS, self._beat)
        self._take_events(received)

    async def receive(self) -> bytes | None:
        """The next message, of text or binary; None when the connection has ended."""
        while not self._messages:
            if self._is_ended:
                return None
            self._is_receiving = True
            try:
                self._take(await self._stream.receive())
                await self._flush()
            except OSError:
                self._is_ended = True
            finally:
                self._is_receiving = False
        return self._messages.popleft()

    async def send(self, text: bytes) -> None:
        """Send a text message, UTF-8. Raises OSError when the agent is gone."""
        try:
            self._protocol.send_text(text)
        except InvalidState as error:
            raise ConnectionResetError(str(error)) from error
        await self._flush()

    async def close(self, code: int, reason: str) -> None:
        """Start to close; `receive` returns None when the agent has answered. Raises OSError."""
        # The protocol allows 123 bytes for the reason.
        short = reason.encode()[:120].decode("utf-8", "ignore")
        with contextlib.suppress(InvalidState):
            self._protocol.send_close(code, short)
        await self._flush()

    async def is_alive(self) -> bool:
        """Whether the agent answers a ping soon. Another task has to receive meanwhile."""
        self._heard.clear()
        await self._ping()
        try:
            await asyncio.wait_for(self._heard.wait(), ANSWER_SECONDS)
        except TimeoutError:
            return False
        return not self._is_ended

    def abort(self) -> None:
        """Abort the connection."""
        self._stream.abort()

    async def finish(self) -> None:
        """Close the TLS connection, whatever was sent."""
        self._timer.cancel()
        if self._pinging is not None:
            self._pinging.cancel()
        await self._stream.close(LINGER_SECONDS)

    def _take(self, data: bytes) -> None:
        self._is_answered = True
        self._heard.set()
        if data:
            self._protocol.receive_data(data)
        else:
            self._protocol.receive_eof()
            self._is_ended = True
        self._take_events(self._protocol.events_received())

    def _take_events(self, events: Iterable[Event]) -> None:
        for event in events:
            if isinstance(event, Frame):
                self._take_frame(event)
        # For example a message that is too large.
        self._is_ended |= self._protocol.parser_exc is not None

    def _take_frame(self, frame: Frame) -> None:
        if frame.opcode is Opcode.CLOSE:
            self._is_ended = True
        elif frame.opcode in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
            self._fragments += frame.data
            if frame.fin:
                self._messages.append(bytes(self._fragments))
                self._fragments = bytearray()

    async def _flush(self) -> None:
        async with self._sending:
            # The last item may be b"", which means the end of this side.
            if data := b"".join(self._protocol.data_to_send()):
                await self._stream.send(data)

    def _beat(self) -> None:
        # An agent from which no task reads cannot answer a ping.
        if not self._is_answered and self._is_receiving:
            self._stream.abort()
            return
        self._is_answered = False
        self._pinging = asyncio.create_task(self._ping())
        self._timer = asyncio.get_running_loop().call_later(HEARTBEAT_SECONDS, self._beat)

    async def _ping(self) -> None:
        with contextlib.suppress(InvalidState, OSError):
            self._protocol.send_ping(b"")
            await self._flush()


async def accept(stream: TlsStream, head: bytes, refusal: str) -> AgentSocket | None:
    """Answer a request for a WebSocket that begins with `head`; None when it was refused.

    `refusal`: the reason to refuse it in any case, "" for none. Raises OSError.
    """
    protocol = ServerProtocol(max_size=LARGEST_MESSAGE_BYTES, logger=_protocol_log)
    protocol.receive_data(head)
    request, *received = protocol.events_received() or (None,)
    # Where what follows is not a WebSocket's, the protocol has ended already and cannot answer.
    if isinstance(request, Request) and not protocol.eof_sent:
        answer = protocol.reject(403, refusal) if refusal else protocol.accept(request)
        protocol.send_response(answer)
    await stream.send(b"".join(protocol.data_to_send()))
    is_open = protocol.state is State.OPEN
    return AgentSocket(stream, protocol, received) if is_open else None


async def open_as_client(stream: TlsStream, url: str) -> AgentSocket:
    """Request a WebSocket from a listening agent. Raises OSError, WebSocketException."""
    protocol = ClientProtocol(parse_uri(url), max_size=LARGEST_MESSAGE_BYTES, logger=_protocol_log)
    protocol.send_request(protocol.connect())
    await stream.send(b"".join(protocol.data_to_send()))
    received: list[Event] = []
    while not received and protocol.handshake_exc is None:
        if data := await stream.receive():
            protocol.receive_data(data)
        else:
            protocol.receive_eof()
        received = protocol.events_received()
    if protocol.handshake_exc is not None:
        raise protocol.handshake_exc
    return AgentSocket(stream, protocol, received)
