"""Dials agents that cannot reach the director: `Connection From Director To Client`.

An agent listens on Address and Port of its Client resource. Once connected, both sides act as if
the agent had dialled. The pause between two attempts doubles up to LONGEST_PAUSE_SECONDS.
"""

from __future__ import annotations

import asyncio
import logging
import socket

from websockets.exceptions import WebSocketException

from strongroom.base import clock
from strongroom.base.errors import PeerRefusedError
from strongroom.director.director import Director
from strongroom.director.http.agent_connections import AgentConnections
from strongroom.director.http.agent_sockets import AgentSocket, open_as_client
from strongroom.director.http.limits import CertifiedPeer, certified_peer
from strongroom.director.http.tls_stream import TlsStream
from strongroom.net.channels.listening import host_in_url
from strongroom.net.channels.tls_contexts import client_context
from strongroom.net.identities.identity import Identity
from strongroom.service.log_lines import DailyLog

SHORTEST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0
_OPEN_SECONDS = 30.0
_GOOD_SECONDS = 10.0

_log = logging.getLogger(__name__)


class AgentDialling:
    """Keeps a connection to each client that has to be dialled. Belongs to the event loop."""

    def __init__(self, director: Director, agents: AgentConnections, identity: Identity) -> None:
        self.identity = identity
        self._director = director
        self._agents = agents
        self._dialling: dict[tuple[str, str, int], asyncio.Task[None]] = {}

    def follow(self) -> None:
        """Dial the clients of the configuration in force, now and after it has changed.

        Connections of unchanged clients are not disturbed.
        """
        clients = self._director.configuration.clients.values()
        wanted = {(one.name, one.address, one.port) for one in clients if one.is_dialled}
        for place in self._dialling.keys() - wanted:
            self._dialling.pop(place).cancel()
        for place in wanted - self._dialling.keys():
            task = asyncio.create_task(self._keep(*place), name=f"dial {place[0]}")
            self._dialling[place] = task

    async def stop(self) -> None:
        """Stop dialling."""
        tasks = list(self._dialling.values())
        self._dialling.clear()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _keep(self, name: str, address: str, port: int) -> None:
        pause_seconds = SHORTEST_PAUSE_SECONDS
        # A machine that is off for a month is one line a day, not one for each attempt.
        daily = DailyLog(_log)
        while True:
            begun = clock.elapsed_seconds()
            try:
                await self._dial(name, address, port)
            except (OSError, TimeoutError, WebSocketException, PeerRefusedError) as error:
                reason = str(error) or type(error).__name__
                daily.warn(
                    reason, f"client {name} at {address} port {port}: {reason}; trying again"
                )
            except Exception:  # noqa: BLE001 - otherwise this client would never be dialled again
                _log.exception("client %s at %s port %d: internal error", name, address, port)
            if clock.elapsed_seconds() - begun > _GOOD_SECONDS:
                pause_seconds = SHORTEST_PAUSE_SECONDS
                daily = DailyLog(_log)
            # Between half of it and one and a half.
            spread = 0.5 + int.from_bytes(clock.random_bytes(2)) / 65535
            await asyncio.sleep(pause_seconds * spread)
            pause_seconds = min(2 * pause_seconds, LONGEST_PAUSE_SECONDS)

    async def _dial(self, name: str, address: str, port: int) -> None:
        async with asyncio.timeout(_OPEN_SECONDS):
            agent, certified = await self._connect(name, address, port)
        _log.info("client %s is dialled at %s port %d", name, address, port)
        try:
            await self._agents.converse(certified, address, agent)
        finally:
            await agent.finish()

    async def _connect(
        self, name: str, address: str, port: int
    ) -> tuple[AgentSocket, CertifiedPeer]:
        stream = await TlsStream.handshake(
            await _connected(address, port),
            client_context(self.identity, check_hostname=False),
            server_hostname=address,
            server_side=False,
        )
        try:
            certified = certified_peer(stream.certificate)
            if certified is None:
                raise PeerRefusedError("it presented no certificate")
            peer = self.identity.trust.judge(certified.certificate, ("agent",))
            if peer.name != name:
                raise PeerRefusedError(f"expected client {name!r}, but the peer is {peer}")
            return await open_as_client(stream, f"wss://{host_in_url(address)}:{port}/"), certified
        except BaseException:
            stream.abort()
            raise


async def _connected(address: str, port: int) -> socket.socket:
    """A TCP connection, to the first of a name's addresses that answers. Raises OSError."""
    loop = asyncio.get_running_loop()
    failure = OSError(f"{address} has no address")
    for family, kind, protocol, _, place in await loop.getaddrinfo(
        address, port, type=socket.SOCK_STREAM
    ):
        connection = socket.socket(family, kind | socket.SOCK_CLOEXEC, protocol)
        connection.setblocking(False)
        try:
            await loop.sock_connect(connection, place)
        except OSError as error:
            connection.close()
            failure = error
        except BaseException:
            connection.close()
            raise
        else:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return connection
    raise failure
