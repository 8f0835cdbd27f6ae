"""WebSockets of agents at /api/v1/agents/connect: the connections of the director to them.

An agent presents its certificate, sends Hello within HELLO_TIMEOUT_SECONDS, and is reported to the
director as connected. Its messages are processed in order, each only when the last is done: a flood
stays in the agent's own socket. Messages to it wait in a bounded queue; an agent that accepts
nothing for SEND_TIMEOUT_SECONDS, or lets the queue overflow, is disconnected, and keeps its
unacknowledged reports until it reconnects. A new connection of an agent replaces its older one,
which may be dead unnoticed.

A connection is closed within WATCH_SECONDS of the revocation or expiry of its certificate.

Runs on the event loop; nothing here may be called from another thread. An idle agent costs one
task, its TLS state, and hardly any buffers.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from dataclasses import dataclass, field, replace

import msgspec

from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.base.errors import ProtocolError, StrongroomError
from strongroom.director.catalog.rivals import SeenAgent
from strongroom.director.http.agent_sockets import AgentSocket
from strongroom.director.http.limits import CertifiedPeer
from strongroom.director.runs.agent_limits import (
    bounded_hello,
    read_undeliverable,
)
from strongroom.director.runs.agents import Agents
from strongroom.director.shown_text import shown
from strongroom.net.control.messages import (
    CLOSE_LEFT,
    LARGEST_MESSAGE_BYTES,
    PROTOCOL_VERSION,
    Hello,
    ToAgent,
    decode_for_director,
    encode_for_agent,
)
from strongroom.net.identities.peer import Peer
from strongroom.net.identities.revocations import Revocations
from strongroom.service.log_lines import LimitedLines

HELLO_TIMEOUT_SECONDS = 30.0
SEND_TIMEOUT_SECONDS = 60.0
WATCH_SECONDS = 2.0
CLOSE_TIMEOUT_SECONDS = 2.0
LARGEST_QUEUE_BYTES = 4 * LARGEST_MESSAGE_BYTES

# Close codes of the WebSocket. After one of the second group an agent need not retry soon.
CLOSE_RESTARTING = 1012
CLOSE_OUR_FAULT = 1011
CLOSE_BAD_MESSAGE = 1003
CLOSE_TOO_SLOW = 4008
CLOSE_REPLACED = 4009
CLOSE_NOT_WELCOME = 4003
CLOSE_CERTIFICATE = 4001

_log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class _Connection:
    client: str
    address: str
    peer: Peer
    expires_at: float
    socket: AgentSocket
    seen: SeenAgent
    queue: deque[bytes] = field(default_factory=deque)
    queued_bytes: int = 0
    flusher: asyncio.Task[None] | None = None
    closing: bool = False


class AgentConnections:
    """All agents connected now; the AgentLink of the director.

    Each call of `events` is awaited before the agent's next message is read. It is not called when
    an agent has disconnected where a newer connection of it replaced the older.
    """

    def __init__(self, events: Agents, revocations: Revocations) -> None:
        self._events = events
        self._revocations = revocations
        self._by_client: dict[str, _Connection] = {}
        self._watching: asyncio.Task[None] | None = None
        self._strangers = LimitedLines(_log)
        self._lines = LimitedLines(
            _log, "{count} more lines about the connections of agent {topic}"
        )

    def __len__(self) -> int:
        return len(self._by_client)

    def start(self) -> None:
        """Start checking certificates."""
        self._watching = asyncio.create_task(self._watch(), name="agent certificates")

    async def stop(self) -> None:
        """Disconnect all agents, which reconnect later."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait((self._watching,))
        for connection in list(self._by_client.values()):
            await self._close(connection, CLOSE_RESTARTING, "the director is stopping")

    # The director's side.

    def is_connected(self, client: str) -> bool:
        """Whether the agent of this client is connected."""
        return client in self._by_client

    def addresses(self) -> dict[str, str]:
        """Connected client -> the address it connected from."""
        return {client: one.address for client, one in self._by_client.items()}

    async def send(self, client: str, message: ToAgent) -> bool:
        """Queue a message for an agent; False when it is not connected.

        True does not mean that it arrived: only the agent's answer does. Raises QuotaError for a
        message that is too long for any agent.
        """
        connection = self._by_client.get(client)
        if connection is None or connection.closing:
            return False
        text = encode_for_agent(message)
        if connection.queued_bytes + len(text) > LARGEST_QUEUE_BYTES:
            await self._close(connection, CLOSE_TOO_SLOW, "the agent reads too few messages")
            return False
        connection.queue.append(text)
        connection.queued_bytes += len(text)
        if connection.flusher is None:
            connection.flusher = asyncio.create_task(self._flush(connection))
        return True

    async def disconnect(self, client: str, reason: str) -> None:
        """Disconnect an agent that is not accepted any more."""
        connection = self._by_client.get(client)
        if connection is not None:
            await self._close(connection, CLOSE_NOT_WELCOME, reason)

    # The network's side.

    def refuse(self, address: str) -> str:
        """Log a connection without a certificate of an agent; returns why it is refused."""
        text = "%s: an agent without a certificate of the role agent"
        self._strangers.warn(text, address)
        return "present a certificate of the role agent\n"

    async def converse(self, certified: CertifiedPeer, address: str, socket: AgentSocket) -> None:
        """Serve an agent, from its Hello to the end of the connection, whichever side dialled."""
        name = certified.peer.name
        refusal = self._refusal(certified)
        hello = None if refusal else await self._hello(socket)
        if hello is None or hello.name != name or hello.protocol != PROTOCOL_VERSION:
            reason = refusal or _greeting_fault(hello, name)
            self._strangers.warn("%s: agent %s is refused: %s", address, name, reason)
            with contextlib.suppress(OSError):
                await socket.close(CLOSE_NOT_WELCOME, reason)
            return
        seen = SeenAgent.of(bounded_hello(hello), address)
        if seen.instance and (end := await self._rival(certified.peer, seen, leaves=hello.leaves)):
            code, reason = end
            self._strangers.warn("%s: agent %s is refused: %s", address, name, reason)
            with contextlib.suppress(OSError):
                await socket.close(code, reason)
            return
        connection = _Connection(
            client=name,
            address=address,
            peer=certified.peer,
            expires_at=certified.expires_at,
            socket=socket,
            seen=seen,
        )
        older = self._by_client.get(name)
        self._by_client[name] = connection
        if older is not None:
            await self._close(older, CLOSE_REPLACED, "the agent has connected again")
        self._lines.log(name, logging.INFO, "agent %s is connected from %s", name, address)
        try:
            await self._events.on_connected(name, hello, address)
            await self._listen(connection)
        except StrongroomError as error:
            # For example the catalog is unavailable. The agent keeps what is not acknowledged.
            text = "messages of agent %s cannot be processed: %s"
            self._lines.log(name, logging.ERROR, text, name, shown(error))
            await self._close(connection, CLOSE_OUR_FAULT, "the director cannot work now")
        finally:
            await self._gone(connection)

    async def _rival(self, peer: Peer, seen: SeenAgent, *, leaves: bool) -> tuple[int, str] | None:
        """Why an agent may not connect in a name that another has; None if it may."""
        older = self._by_client.get(peer.name)

        def is_revoked(issued: int) -> bool:
            return self._revocations.is_revoked(replace(peer, issued=issued))

        try:
            if leaves:
                await self._events.on_rivalry_ended(peer.name, f"{seen.text()} has left")
                return CLOSE_LEFT, "it has left"
            if (
                older is not None
                and older.seen.instance not in ("", seen.instance)
                and not older.closing
                and await older.socket.is_alive()
            ):
                await self._events.rivals.found(peer.name, older.seen, seen, older.peer.issued)
            refusal = await self._events.rivals.refusal(peer.name, seen, is_revoked)
        except StrongroomError as error:
            _log.error("agent %s cannot be compared with another: %s", peer.name, shown(error))
            return CLOSE_OUR_FAULT, "the director cannot work now"
        return (CLOSE_NOT_WELCOME, refusal) if refusal else None

    def _refusal(self, certified: CertifiedPeer) -> str:
        if self._revocations.is_revoked(certified.peer):
            return "its certificate was revoked"
        if refusal := self._revocations.refusal(certified.peer):
            return refusal
        return self._events.refusal(certified.peer.name)

    async def _hello(self, socket: AgentSocket) -> Hello | None:
        try:
            received = await asyncio.wait_for(socket.receive(), HELLO_TIMEOUT_SECONDS)
            message = None if received is None else decode_for_director(received)
        except (TimeoutError, msgspec.MsgspecError):
            return None
        return message if isinstance(message, Hello) else None

    async def _listen(self, connection: _Connection) -> None:
        while (received := await connection.socket.receive()) is not None:
            try:
                message = decode_for_director(received)
            except msgspec.MsgspecError as error:
                report = read_undeliverable(received)
                if report is not None:
                    fault = ProtocolError(f"it cannot be decoded: {shown(error)}")
                    await self._events.on_undeliverable(connection.client, report, fault)
                    continue
                client, text = connection.client, "invalid message from agent %s: %s"
                self._lines.log(client, logging.WARNING, text, client, shown(error))
                await self._close(connection, CLOSE_BAD_MESSAGE, "an invalid message")
                return
            if isinstance(message, Hello):
                await self._close(connection, CLOSE_BAD_MESSAGE, "an unexpected message")
                return
            await self._events.on_message(connection.client, message)

    async def _gone(self, connection: _Connection) -> None:
        client = connection.client
        connection.closing = True
        if connection.flusher is not None:
            connection.flusher.cancel()
        if self._by_client.get(client) is connection:
            del self._by_client[client]
            self._lines.log(client, logging.INFO, "agent %s has disconnected", client)
            try:
                await self._events.on_disconnected(client)
            except StrongroomError as error:
                text = "agent %s has disconnected, which cannot be recorded: %s"
                self._lines.log(client, logging.ERROR, text, client, error)

    async def _flush(self, connection: _Connection) -> None:
        while connection.queue and not connection.closing:
            data = connection.queue.popleft()
            connection.queued_bytes -= len(data)
            try:
                await asyncio.wait_for(connection.socket.send(data), SEND_TIMEOUT_SECONDS)
            except TimeoutError:
                await self._close(
                    connection, CLOSE_TOO_SLOW, "the agent does not read its messages"
                )
                break
            except OSError:  # it disconnected; its reader notices as well
                break
        connection.flusher = None

    async def _close(self, connection: _Connection, code: int, reason: str) -> None:
        if connection.closing:
            return
        connection.closing = True
        client, text = connection.client, "agent %s is disconnected: %s"
        self._lines.log(client, logging.INFO, text, client, reason)
        try:
            await asyncio.wait_for(connection.socket.close(code, reason), WATCH_SECONDS)
        except (OSError, TimeoutError):
            self._lines.log(client, logging.INFO, "agent %s did not receive the reason", client)
            # An agent that does not close its side is disconnected.
        asyncio.get_running_loop().call_later(CLOSE_TIMEOUT_SECONDS, connection.socket.abort)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            self._strangers.flush()
            self._lines.flush()
            now_seconds = clock.now_ns() / SECOND_NS
            for connection in list(self._by_client.values()):
                if self._revocations.is_revoked(connection.peer):
                    await self._close(connection, CLOSE_CERTIFICATE, "its certificate was revoked")
                elif connection.expires_at <= now_seconds:
                    await self._close(connection, CLOSE_CERTIFICATE, "its certificate has expired")


def _greeting_fault(hello: Hello | None, name: str) -> str:
    if hello is None:
        return "it did not send Hello in time"
    if hello.name != name:
        return f"it says it is {hello.name[:100]!r}, but its certificate names {name!r}"
    return f"it speaks protocol {hello.protocol}; this director speaks {PROTOCOL_VERSION}"
