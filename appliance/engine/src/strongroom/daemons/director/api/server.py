"""The API on a socket: uvicorn with TLS 1.3, optional client certificates, and bounded memory.

A console may show a token instead of a certificate, and an agent that enrols has none yet, so
certificates are asked for, not demanded; the handlers demand them where they matter. Connections
idle by the thousand (an agent stays connected for days), so nothing that grows with them is large:
no compression contexts, no session tickets, small TLS buffers.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from asyncio import sslproto
from typing import TYPE_CHECKING

import uvicorn

from strongroom.daemons.director.api.connections import AgentSocket, Connection
from strongroom.daemons.director.api.handshakes import HANDSHAKE_TIMEOUT_SECONDS, CountingListener
from strongroom.daemons.director.api.uvicorn_lines import LOGGER, UvicornLines
from strongroom.errors import OperatingSystemError
from strongroom.net.channels.tls_contexts import server_context
from strongroom.net.control.messages import LARGEST_MESSAGE_BYTES

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterator, Sequence

    from strongroom.daemons.director.api.request_limits import Application
    from strongroom.net.identities.identity import Identity

# asyncio keeps a buffer of this size for every TLS connection, 256 KiB unless told otherwise: two
# thousand idle agents would hold half a gigabyte. What they say fits into less, and what does not
# takes a few more turns.
TLS_BUFFER_BYTES = 8 << 10
LARGEST_HEAD_BYTES = 512 << 10
HEARTBEAT_SECONDS = 30.0
STOP_SECONDS = 10
_BACKLOG = 1024
_COUNTS_SECONDS = 2.0

_log = logging.getLogger(__name__)


def tls_context(identity: Identity, cipher_suites: str = "") -> ssl.SSLContext:
    """TLS 1.3 as the director serves it. Raises UsageError."""
    context = server_context(identity, cipher_suites, require_certificate=False)
    context.set_alpn_protocols(["http/1.1"])
    return context


def renew_identity(context: ssl.SSLContext, identity: Identity) -> None:
    """Show new connections the certificate that `identity` has now."""
    context.load_cert_chain(identity.certificate_path, identity.key_path)


class _Uvicorn(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and say so."""
        await super().startup(sockets)
        self.listening.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the daemon, which has more to stop than this."""
        yield


class ApiServer:
    """Serves `application` on `addresses`; `started` when it returns from start()."""

    def __init__(
        self,
        application: Application,
        context: ssl.SSLContext,
        addresses: Sequence[tuple[str, int]],
        on_stop: Callable[[], None],
    ) -> None:
        self._application = application
        self._context = context
        self._addresses = addresses
        self._on_stop = on_stop
        self._server: _Uvicorn | None = None
        self._serving: asyncio.Task[None] | None = None
        self._counting: asyncio.Task[None] | None = None
        self._lines = UvicornLines()
        self.ports: list[int] = []

    async def start(self) -> None:
        """Listen and serve. Raises OperatingSystemError when an address cannot be had."""
        sslproto.SSLProtocol.max_size = TLS_BUFFER_BYTES
        # uvicorn hands no timeout on to asyncio, whose own is three times as long.
        asyncio.constants.SSL_HANDSHAKE_TIMEOUT = HANDSHAKE_TIMEOUT_SECONDS
        config = uvicorn.Config(
            self._application,
            http=Connection,
            ws=AgentSocket,
            ws_max_size=LARGEST_MESSAGE_BYTES,
            ws_ping_interval=HEARTBEAT_SECONDS,
            ws_ping_timeout=HEARTBEAT_SECONDS,
            ws_per_message_deflate=False,
            ssl_context_factory=lambda *_: self._context,
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,
            proxy_headers=False,
            h11_max_incomplete_event_size=LARGEST_HEAD_BYTES,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=STOP_SECONDS,
            backlog=_BACKLOG,
        )
        sockets = [_listen(address, port) for address, port in self._addresses]
        self.ports = [one.getsockname()[1] for one in sockets]
        self._server = _Uvicorn(config)
        LOGGER.addFilter(self._lines)
        self._counting = asyncio.create_task(self._say_counts(), name="lines left out")
        self._serving = asyncio.create_task(self._server.serve(sockets), name="api")
        listening = asyncio.create_task(self._server.listening.wait())
        await asyncio.wait((listening, self._serving), return_when=asyncio.FIRST_COMPLETED)
        if self._serving.done():
            listening.cancel()
            self._serving.result()
            raise OperatingSystemError("the API's server ended before it had begun")

    async def stop(self) -> None:
        """Take no more requests, let those under way end, close agents' connections."""
        if self._server is None or self._serving is None:
            return
        self._on_stop()
        self._server.should_exit = True
        try:
            await self._serving
        finally:
            LOGGER.removeFilter(self._lines)
            if self._counting is not None:
                self._counting.cancel()

    async def wait(self) -> None:
        """Return when the server has ended."""
        if self._serving is not None:
            await asyncio.shield(self._serving)

    async def _say_counts(self) -> None:
        while True:
            await asyncio.sleep(_COUNTS_SECONDS)
            self._lines.flush()
            Connection.handshakes.strangers.flush()
            Connection.too_many.flush()


def _listen(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = CountingListener(family, Connection.handshakes)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            # "::" takes IPv4 as well, as it does for every other service.
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(address != "::"))
        listener.bind((address, port))
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise OperatingSystemError(
            f"cannot listen on {address} port {port}: {error.strerror}; see the director's "
            "Address, Port and Addresses"
        ) from error
    return listener
