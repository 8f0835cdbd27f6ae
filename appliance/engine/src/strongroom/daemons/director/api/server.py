"""The API on its sockets: TLS 1.3 with optional client certificates, for agents and for requests.

A console may use a token instead of a certificate, and an agent that enrols has none yet, so TLS
requests certificates without requiring them; the handlers require them where needed.

One port serves both. This server accepts connections, does TLS and reads the first request. A
request for a WebSocket goes to the agents' connections; every other is forwarded to uvicorn, which
listens on a socket in a private folder (`http_forwarding`). So agents do not depend on uvicorn, and
uvicorn does not hold the thousands of idle connections.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import tempfile
from typing import TYPE_CHECKING

import h11
import uvicorn

from strongroom.daemons.director.api import agent_sockets
from strongroom.daemons.director.api.connection_limits import certified_peer
from strongroom.daemons.director.api.cross_site import gathered, refusal
from strongroom.daemons.director.api.http_forwarding import (
    LARGEST_HEAD_BYTES,
    REQUEST_HEAD_TIMEOUT_SECONDS,
    HttpConnection,
)
from strongroom.daemons.director.api.request_origin import KnownOrigin, Origins, RequestOrigin
from strongroom.daemons.director.api.tls_stream import TlsStream
from strongroom.errors import OperatingSystemError
from strongroom.net.channels.listening import listen, peer_address, shown_socket
from strongroom.net.channels.tls_contexts import server_context
from strongroom.net.channels.unauthenticated import StrangersLog

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Sequence

    from strongroom.daemons.director.api.agent_connections import AgentConnections
    from strongroom.daemons.director.api.connection_limits import ConnectionLimits
    from strongroom.daemons.director.api.cross_site import Headers, OwnNames
    from strongroom.daemons.director.api.request_limits import Application
    from strongroom.net.identities.identity import Identity

AGENTS_PATH = "/api/v1/agents/connect"
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
        self._origins = Origins()
        self._requests = _RequestServer(KnownOrigin(application, self._origins))
        self._listening: list[asyncio.Task[None]] = []
        self._counting: asyncio.Task[None] | None = None
        self._connections: set[asyncio.Task[None]] = set()
        # Those without an active request or WebSocket.
        self._idle: set[asyncio.Task[None]] = set()
        self._is_stopping = False
        self._no_http_log = StrangersLog(_log, "%d more requests were not HTTP")
        self.ports: list[int] = []
        self.places: list[str] = []

    async def start(self) -> None:
        """Listen and serve. Raises OperatingSystemError when an address is not available."""
        listeners = listen(self._addresses, _BACKLOG, _HINT)
        for one in listeners:
            one.setblocking(False)
            self.places.append(shown_socket(one))
        await self._requests.start()
        self.ports = [one.getsockname()[1] for one in listeners]
        self._counting = asyncio.create_task(self._log_counts(), name="lines left out")
        self._listening = [asyncio.create_task(self._accept(one), name="api") for one in listeners]

    async def stop(self) -> None:
        """Accept no more requests, let active ones end, close agents' connections."""
        if self._is_stopping or not self.ports:
            return
        self._is_stopping = True
        self._on_stop()
        for task in (*self._listening, *self._idle):
            task.cancel()
        if self._counting is not None:
            self._counting.cancel()
        if self._connections:
            _, late = await asyncio.wait(self._connections, timeout=STOP_SECONDS)
            for task in late:
                task.cancel()
        await self._requests.stop()

    async def wait(self) -> None:
        """Return when the server has ended."""
        await self._requests.wait()

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
                    self._idle.add(task)
                    task.add_done_callback(self._forget)
                else:
                    connection.close()
                # A steady flow of connections must not starve other tasks.
                await asyncio.sleep(0)

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._connections.discard(task)
        self._idle.discard(task)
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
        certified = certified_peer(stream.certificate)
        if not self._limits.enter(certified, address):
            stream.abort()
            return
        try:
            await self._converse(stream, RequestOrigin(address, port, certified))
        except OSError:
            pass
        finally:
            stream.abort()
            self._limits.leave(certified, address)

    async def _converse(self, stream: TlsStream, origin: RequestOrigin) -> None:
        token = self._origins.add(origin)
        http = HttpConnection(stream, token)
        try:
            head = await http.head()
            if head is None:
                pass
            elif head.wants_websocket and head.path == AGENTS_PATH:
                received, headers = head.received, gathered(head.request.headers)
                # Thousands of agents would hold this memory for days.
                del http, head
                await self._serve_agent(stream, received, headers, origin)
                return
            else:
                self._set_idle(False)
                await http.forward(head.request, self._requests.path, self._set_idle)
        except h11.ProtocolError as error:
            self._no_http_log.warn("%s: Invalid HTTP request: %s", origin.address, error)
            await http.refuse()
        finally:
            self._origins.remove(token)
        await stream.close(LINGER_SECONDS)

    async def _serve_agent(
        self, stream: TlsStream, head: bytes, headers: Headers, origin: RequestOrigin
    ) -> None:
        certified = origin.certified
        is_agent = certified is not None and certified.peer.role == "agent"
        refused = refusal(headers, self._names, certified, needs_header=True)
        if not is_agent:
            refused = self._agents.refuse(origin.address)
        agent = await agent_sockets.accept(stream, head, refused)
        if agent is None or certified is None:
            await stream.close(LINGER_SECONDS)
            return
        self._set_idle(False)
        try:
            await self._agents.converse(certified, origin.address, agent)
        finally:
            await agent.finish()

    def _set_idle(self, is_idle: bool) -> None:
        task = asyncio.current_task()
        assert task is not None
        if not is_idle:
            self._idle.discard(task)
        elif self._is_stopping:
            task.cancel()
        else:
            self._idle.add(task)


class _RequestServer:
    """uvicorn on a socket that only this user can reach."""

    def __init__(self, application: Application) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="strongroom-")
        self.path = os.path.join(self._folder.name, "requests")
        self._server = uvicorn.Server(
            uvicorn.Config(
                application,
                http="h11",
                ws="none",
                log_config=None,
                log_level="warning",
                access_log=False,
                lifespan="off",
                server_header=False,
                proxy_headers=False,
                # A forwarded request has one header more.
                h11_max_incomplete_event_size=2 * LARGEST_HEAD_BYTES,
                # Idle connections are ended by the timeout of the outer connection.
                timeout_keep_alive=int(10 * REQUEST_HEAD_TIMEOUT_SECONDS),
                timeout_graceful_shutdown=STOP_SECONDS,
                backlog=_BACKLOG,
            )
        )
        self._serving: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Listen. Raises OperatingSystemError.

        A signal that ends the process reaches uvicorn as well as the daemon.
        """
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            listener.bind(self.path)
            listener.listen(_BACKLOG)
        except OSError as error:
            listener.close()
            raise OperatingSystemError(
                f"cannot listen on {self.path}: {error}; set TMPDIR to a folder with a short path"
            ) from error
        self._serving = asyncio.create_task(self._server.serve([listener]), name="requests")

    async def stop(self) -> None:
        """Let active requests end."""
        self._server.should_exit = True
        try:
            await self.wait()
        finally:
            self._folder.cleanup()

    async def wait(self) -> None:
        """Return when it has ended."""
        if self._serving is not None:
            await asyncio.shield(self._serving)
