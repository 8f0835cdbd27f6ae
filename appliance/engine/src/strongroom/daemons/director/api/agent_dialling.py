"""Agents that cannot reach the director are dialled by it: `Connection From Director To Client`.

An agent listens on Address and Port of its Client resource. Once connected, both talk as if the
agent had dialled. Between two tries there is a pause that doubles up to LONGEST_PAUSE_SECONDS.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Protocol

from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, WebSocketException

from strongroom import clock
from strongroom.daemons.director.api.connections import certified_peer
from strongroom.daemons.director.api.server import HEARTBEAT_SECONDS
from strongroom.errors import PeerRefusedError
from strongroom.net.channels.tls_contexts import client_context
from strongroom.net.control.messages import LARGEST_MESSAGE_BYTES

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

    from strongroom.config.model import ComponentConfiguration, Resource
    from strongroom.daemons.director.api.agent_connections import AgentConnections
    from strongroom.daemons.director.api.request_limits import Message
    from strongroom.net.identities.identity import Identity

SHORTEST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0
_OPEN_SECONDS = 30.0
_GOOD_SECONDS = 10.0

_log = logging.getLogger(__name__)


class Configured(Protocol):
    """Who knows the configuration in force."""

    @property
    def configuration(self) -> ComponentConfiguration:
        """Resources of the director."""


class AgentDialling:
    """Keeps a connection to each client that is to be dialled. Belongs to the event loop."""

    def __init__(
        self, configured: Configured, agents: AgentConnections, identity: Identity
    ) -> None:
        self.identity = identity
        self._configured = configured
        self._agents = agents
        self._dialling: dict[tuple[str, str, int], asyncio.Task[None]] = {}

    def follow(self) -> None:
        """Dial whom the configuration in force says, now and after it has changed.

        Connections of clients that stay as they were are not disturbed.
        """
        clients = self._configured.configuration.clients.values()
        wanted = {(one.name, one.address, int(one.port)) for one in clients if is_dialled(one)}
        for place in self._dialling.keys() - wanted:
            self._dialling.pop(place).cancel()
        for place in wanted - self._dialling.keys():
            task = asyncio.create_task(self._keep(*place), name=f"dial {place[0]}")
            self._dialling[place] = task

    async def stop(self) -> None:
        """Dial nobody any more."""
        tasks = list(self._dialling.values())
        self._dialling.clear()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _keep(self, name: str, address: str, port: int) -> None:
        pause_seconds = SHORTEST_PAUSE_SECONDS
        while True:
            begun = clock.elapsed_seconds()
            try:
                await self._dial(name, address, port)
            except (OSError, TimeoutError, WebSocketException, PeerRefusedError) as error:
                reason = str(error) or type(error).__name__
                _log.warning("client %s at %s port %d: %s", name, address, port, reason)
            except Exception:  # noqa: BLE001 - else this client would never be dialled again
                _log.exception("client %s at %s port %d: a fault of ours", name, address, port)
            if clock.elapsed_seconds() - begun > _GOOD_SECONDS:
                pause_seconds = SHORTEST_PAUSE_SECONDS
            # From half to one and a half of it.
            spread = 0.5 + int.from_bytes(clock.random_bytes(2)) / 65535
            await asyncio.sleep(pause_seconds * spread)
            pause_seconds = min(2 * pause_seconds, LONGEST_PAUSE_SECONDS)

    async def _dial(self, name: str, address: str, port: int) -> None:
        shown = f"[{address}]" if ":" in address else address
        async with connect(
            f"wss://{shown}:{port}/",
            ssl=client_context(self.identity, check_hostname=False),
            compression=None,
            max_size=LARGEST_MESSAGE_BYTES,
            open_timeout=_OPEN_SECONDS,
            ping_interval=HEARTBEAT_SECONDS,
            ping_timeout=HEARTBEAT_SECONDS,
            proxy=None,
        ) as socket:
            certified = certified_peer(socket.transport)
            if certified is None:
                raise PeerRefusedError("it showed no certificate")
            peer = self.identity.trust.judge(certified.certificate, ("agent",))
            if peer.name != name:
                raise PeerRefusedError(f"we meant client {name!r}, but who answers is {peer}")
            _log.info("client %s is dialled at %s port %d", name, address, port)
            line = _Line(socket)
            await self._agents.converse(
                certified, address, line.receive, line.send, socket.transport.abort
            )


class _Line:
    """A connection that we dialled, with messages as ASGI has them."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket

    async def receive(self) -> Message:
        """The next message."""
        try:
            data = await self._socket.recv()
        except ConnectionClosed:
            return {"type": "websocket.disconnect"}
        name = "text" if isinstance(data, str) else "bytes"
        return {"type": "websocket.receive", name: data}

    async def send(self, message: Message) -> None:
        """Send or close. Raises ConnectionResetError when the agent is gone."""
        try:
            await self._pass_on(message)
        except ConnectionClosed as error:
            raise ConnectionResetError(str(error)) from error

    async def _pass_on(self, message: Message) -> None:
        if message["type"] == "websocket.send":
            await self._socket.send(message["text"])
            return
        fields: dict[str, Any] = {name: message[name] for name in ("code", "reason")}
        await self._socket.close(**fields)


def is_dialled(client: Resource) -> bool:
    """Whether the director dials this client.

    Bareos allows that for every client unless told otherwise; agents of ours dial themselves, so
    it takes a Connection From Director To Client that was written down.
    """
    return bool(
        client.enabled
        and client.is_set("connection_from_director_to_client")
        and client.connection_from_director_to_client
        and not client.connection_from_client_to_director
    )
