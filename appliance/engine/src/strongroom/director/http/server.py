"""The API on its sockets: TLS 1.3 with optional client certificates, for agents and for requests.

A console may use a token instead of a certificate, and an agent that enrols has none yet, so TLS
requests certificates without requiring them; the handlers require them where needed.

One port serves both. This server accepts connections, does TLS, and lets uvicorn's protocol
answer requests (`http_connection`). A request for a WebSocket goes to the agents' connections.

uvicorn could listen by itself, but not limit handshakes, and an idle agent would cost 308 KiB
there, with asyncio's TLS, instead of 36 KiB (`python -m strongroom_bench.idle_agents`).
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Sequence

import uvicorn

from strongroom.director.http import agent_sockets
from strongroom.director.http.agent_connections import AgentConnections
from strongroom.director.http.cross_site import Headers, OwnNames, refusal
from strongroom.director.http.http_connection import (
    LARGEST_HEAD_BYTES,
    REQUEST_HEAD_TIMEOUT_SECONDS,
    HttpConnection,
    Origin,
)
from strongroom.director.http.limits import Application, ConnectionLimits, certified_peer
from strongroom.director.http.tls_stream import TlsStream
from strongroom.net.channels.listening import listen, peer_address, shown_socket
from strongroom.net.channels.tls_contexts import server_context
from strongroom.net.identities.identity import Identity
from strongroom.service.log_lines import LimitedLines

HANDSHAKE_TIMEOUT_SECONDS = 20.0
LINGER_SECONDS = 0.5
STOP_SECONDS = 10
_BACKLOG = 1024
_HINT = "; see Address, Port and Addresses of the Director"
_COUNTS_SECONDS = 2.0
# After a failure to accept, such as too many open files.
_PAUSE_SECONDS = 1.0

_log = logging.getLogger(__name__)


def tls_context(identity: Identity, cipher_suites: str = "") -> ssl.SSLContext:
    """TLS 1.3 as the director serves it. Raises UsageError."""
    context = server_context(identity, cipher_suites, require_certificate=False)
    context.set_alpn_protocols(["http/1.1"])
    return context


class ApiServer:
    """Serves `application` and `agents` on `addresses`, once start() has returned.

    `on_stop` is called when it is about to stop, so that streams are ended.
    """

    def __init__(
        self,
        application: Application,
        agents: AgentConnections,
        context: ssl.SSLContext,
        addresses: Sequence[tuple[str, int]],
        limits: ConnectionLimits,
        names: OwnNames,
        on_stop: Callable[[], None],
    ) -> None:
        self._agents = agents
        self._names = names
        self._context = context
        self._addresses = addresses
        self._limits = limits
        self._on_stop = on_stop
        self._requests = uvicorn.Server(uvicorn_settings(application))
        self._serving: asyncio.Task[None] | None = None
        self._listening: list[asyncio.Task[None]] = []
        self._counting: asyncio.Task[None] | None = None
        self._connections: set[asyncio.Task[None]] = set()
        # Those whose handshake is not done.
        self._handshaking: set[asyncio.Task[None]] = set()
        self._is_stopping = False
        self._no_http_log = LimitedLines(_log, "{count} more requests were not HTTP")
        self.ports: list[int] = []
        self.places: list[str] = []

    async def start(self) -> None:
        """Listen and serve. Raises OperatingSystemError when an address is not available."""
        listeners = listen(self._addresses, _BACKLOG, _HINT)
        for one in listeners:
            one.setblocking(False)
            self.places.append(shown_socket(one))
        # It accepts nothing itself. A signal that ends the process reaches it as well.
        self._serving = asyncio.create_task(self._requests.serve([]), name="requests")
        self.ports = [one.getsockname()[1] for one in listeners]
        self._counting = asyncio.create_task(self._log_counts(), name="lines left out")
        self._listening = [asyncio.create_task(self._accept(one), name="api") for one in listeners]

    async def stop(self) -> None:
        """Accept no more requests, let active ones end, close agents' connections."""
        if self._is_stopping or not self.ports:
            return
        self._is_stopping = True
        self._on_stop()
        for task in (*self._listening, *self._handshaking):
            task.cancel()
        if self._counting is not None:
            self._counting.cancel()
        self._requests.should_exit = True
        if self._connections:
            _, late = await asyncio.wait(self._connections, timeout=STOP_SECONDS)
            # Their handlers see that the peer is gone.
            for task in late:
                task.cancel()
        await self.wait()

    async def wait(self) -> None:
        """Return when the server has ended."""
        if self._serving is not None:
            await asyncio.shield(self._serving)

    async def _log_counts(self) -> None:
        while True:
            await asyncio.sleep(_COUNTS_SECONDS)
            self._no_http_log.flush()
            self._limits.flush()

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        with listener:
            while True:
                try:
                    connection, address = await loop.sock_accept(listener)
                except OSError as error:
                    _log.error("no connection can be accepted: %s", error)
                    await asyncio.sleep(_PAUSE_SECONDS)
                    continue
                peer = peer_address(address[0])
                if self._limits.begin_handshake(peer):
                    task = asyncio.create_task(self._serve(connection, peer, address[1]))
                    self._connections.add(task)
                    self._handshaking.add(task)
                    task.add_done_callback(self._forget)
                else:
                    connection.close()
                # A steady flow of connections must not starve other tasks.
                await asyncio.sleep(0)

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._connections.discard(task)
        self._handshaking.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("a connection of the API: internal error", exc_info=error)

    async def _serve(self, connection: socket.socket, address: str, port: int) -> None:
        """One connection, from start to end."""
        try:
            async with asyncio.timeout(HANDSHAKE_TIMEOUT_SECONDS):
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                stream = await TlsStream.handshake(connection, self._context)
        except (OSError, TimeoutError):
            return
        finally:
            self._limits.end_handshake(address)
        task = asyncio.current_task()
        assert task is not None
        self._handshaking.discard(task)
        certified = certified_peer(stream.certificate)
        if not self._limits.enter(certified, address):
            stream.abort()
            return
        try:
            await self._converse(stream, Origin(address, port, certified))
        except OSError:
            pass
        finally:
            stream.abort()
            self._limits.leave(certified, address)

    async def _converse(self, stream: TlsStream, origin: Origin) -> None:
        wanted = await HttpConnection(self._requests, stream, origin, self._no_http_log).serve()
        certified = origin.certified
        agent = None
        if wanted is not None:
            refused = self._agent_refusal(wanted.headers, origin)
            agent = await agent_sockets.accept(stream, wanted.received, refused)
        # Thousands of agents would hold this memory for days.
        del wanted
        if agent is None or certified is None:
            await stream.close(LINGER_SECONDS)
            return
        try:
            await self._agents.converse(certified, origin.address, agent)
        finally:
            await agent.finish()

    def _agent_refusal(self, headers: Headers, origin: Origin) -> str:
        certified = origin.certified
        if certified is None or certified.peer.role != "agent":
            return self._agents.refuse(origin.address)
        return refusal(headers, self._names, certified, needs_header=True)


def uvicorn_settings(application: Application) -> uvicorn.Config:
    """Of a server that accepts nothing itself."""
    return uvicorn.Config(
        application,
        http="h11",
        # With none uvicorn would take a request for a WebSocket for an ordinary one.
        ws=asyncio.Protocol,
        log_config=None,
        # What peers do wrong is a warning there, without a limit of lines.
        log_level="error",
        access_log=False,
        lifespan="off",
        server_header=False,
        proxy_headers=False,
        h11_max_incomplete_event_size=LARGEST_HEAD_BYTES,
        # Our own deadline is earlier.
        timeout_keep_alive=int(10 * REQUEST_HEAD_TIMEOUT_SECONDS),
        # For handlers that do not end although their connection has.
        timeout_graceful_shutdown=2 * STOP_SECONDS,
    )
