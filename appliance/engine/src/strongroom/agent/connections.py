"""Connections to directors: dials them, or waits for them to dial, and reconnects.

Whichever side dials, both present certificates of our authority, and the director's must have the
name that is configured for it and the role of a director. Its DNS name does not matter: it may be
reached through any address. The pause between two attempts doubles and has a random part, so that a
thousand agents do not reconnect at the same moment.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from typing import Any, Final

from websockets.asyncio.client import connect
from websockets.asyncio.connection import Connection
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidMessage

from strongroom.agent.conversation import Conversation
from strongroom.agent.settings import AgentSettings, KnownDirector
from strongroom.agent.supervisor import Supervisor
from strongroom.base import clock
from strongroom.base.errors import PeerRefusedError, StrongroomError
from strongroom.net.channels.listening import host_in_url, listen
from strongroom.net.channels.tls_contexts import (
    client_context,
    load_certificate,
    server_context,
)
from strongroom.net.control.messages import LARGEST_MESSAGE_BYTES, OWN_HEADERS
from strongroom.net.identities.identity import Identity
from strongroom.net.identities.peer import Peer
from strongroom.net.renewal import ended_text, is_of_no_use
from strongroom.service.log_lines import DailyLog

CONNECT_PATH: Final = "/api/v1/agents/connect"
SHORTEST_PAUSE_SECONDS: Final = 1.0
_BACKLOG: Final = 100
_HINT: Final = "; see Address, Port and Addresses of the Client"
_OPEN_SECONDS: Final = 30.0
_CLOSE_SECONDS: Final = 2.0
_END_AGAIN_SECONDS: Final = 3.0
# After a connection that lasted this long the next pause is short again.
_GOOD_SECONDS: Final = 10.0
_DIRECTOR: Final = ("director",)
_ENDED: Final = "the certificate has ended"

_log = logging.getLogger(__name__)


class DirectorLinks:
    """All connections with directors. Everything runs in the event loop's thread."""

    def __init__(self, settings: AgentSettings) -> None:
        self.settings = settings
        self.supervisor: Supervisor
        self._conversations: dict[str, Conversation] = {}
        self._dialling: dict[str, tuple[KnownDirector, asyncio.Task[None]]] = {}
        self._servers: list[Server] = []
        self._served: tuple[ssl.SSLContext, str] | None = None
        self._daily = DailyLog(_log)
        self.is_ended = False

    def news(self, director: str) -> None:
        """There is something to send to a director."""
        conversation = self._conversations.get(director)
        if conversation is not None:
            conversation.news()

    def is_welcome(self, director: str) -> bool:
        """Whether a director is connected and has sent Welcome."""
        conversation = self._conversations.get(director)
        return conversation is not None and conversation.is_welcome

    async def start(self, supervisor: Supervisor) -> None:
        """Dial and listen. Raises OSError when an address is not available."""
        self.supervisor = supervisor
        await self._listen()
        self._dial_all()

    async def reload(self, settings: AgentSettings) -> None:
        """Apply new settings; connections of unchanged directors stay.

        Raises OSError where it cannot listen, and stays with the settings before.
        """
        before = self.settings
        if settings.listen_addresses != before.listen_addresses:
            await self._stop_listening()
            self.settings = settings
            try:
                await self._listen()
            except (OSError, StrongroomError):
                self.settings = before
                await self._stop_listening()
                await self._listen()
                raise
        changed = {
            name
            for name, (director, _) in self._dialling.items()
            if settings.directors.get(name) != director
            or settings.name != before.name
            or settings.identity_folder != before.identity_folder
        }
        self.settings = settings
        for name in changed:
            await _end(self._dialling.pop(name)[1])
        self._dial_all()

    def use_identity(self, identity: Identity) -> None:
        """Present this certificate to directors that dial us, if it is another than before."""
        if self._served is not None and self._served[1] != identity.serial:
            context = self._served[0]
            load_certificate(context, identity)
            self._served = (context, identity.serial)

    def tell_ended(self, identity: Identity) -> bool:
        """Whether the certificate is not valid now; logged once a day, not with each dial."""
        self.is_ended = is_of_no_use(identity)
        if not self.is_ended:
            self._daily.forget(_ENDED)
            return False
        self._daily.error(_ENDED, ended_text(identity))
        return True

    async def stop(self) -> None:
        """End all connections."""
        for _, task in self._dialling.values():
            await _end(task)
        self._dialling.clear()
        await self._stop_listening()

    def _dial_all(self) -> None:
        for name, director in self.settings.directors.items():
            if director.dials and name not in self._dialling:
                task = asyncio.create_task(self._keep_dialling(director), name=f"director {name}")
                self._dialling[name] = (director, task)

    async def _keep_dialling(self, director: KnownDirector) -> None:
        pause_seconds = SHORTEST_PAUSE_SECONDS
        # A director that is off for a month is one line a day, not one for each attempt.
        daily = DailyLog(_log)
        while True:
            started = clock.elapsed_seconds()
            try:
                await self._dial(director)
            except (
                OSError,
                TimeoutError,
                ConnectionClosed,
                InvalidHandshake,
                InvalidMessage,
            ) as error:
                reason = _reason(error)
                daily.warn(reason, f"Director {director.name}: {reason}; trying again")
            except StrongroomError as error:
                daily.error(str(error), f"Director {director.name}: {error}")
            except Exception:  # noqa: BLE001 - otherwise no backup would run any more
                _log.exception("Director %s: internal error of the agent", director.name)
            if clock.elapsed_seconds() - started > _GOOD_SECONDS:
                pause_seconds = SHORTEST_PAUSE_SECONDS
                daily = DailyLog(_log)
            # Between half of it and one and a half.
            spread = 0.5 + int.from_bytes(clock.random_bytes(2)) / 65535
            await asyncio.sleep(pause_seconds * spread)
            pause_seconds = min(2 * pause_seconds, director.longest_pause_seconds)

    async def _dial(self, director: KnownDirector) -> None:
        identity = Identity.load(self.settings.identity_folder)
        require_own(identity, self.settings)
        if self.tell_ended(identity):
            return
        context = client_context(identity, check_hostname=False)
        address = (director.address, director.port)
        connected = await asyncio.to_thread(socket.create_connection, address, _OPEN_SECONDS)
        connected.setblocking(False)
        async with connect(
            f"wss://{host_in_url(director.address)}:{director.port}{CONNECT_PATH}",
            sock=connected,
            ssl=context,
            server_hostname=director.address,
            additional_headers=OWN_HEADERS,
            **self._options(),
        ) as connection:
            identity.trust.judge_server(_certificate(connection), director.name, _DIRECTOR)
            await self._converse(connection, director.name)

    def _options(self) -> dict[str, Any]:
        """Those of every connection, whichever side dialled."""
        return {
            "compression": None,
            "max_size": LARGEST_MESSAGE_BYTES,
            "open_timeout": _OPEN_SECONDS,
            "close_timeout": _CLOSE_SECONDS,
            "ping_interval": self.settings.ping_seconds,
            "ping_timeout": self.settings.ping_seconds,
        }

    async def _converse(self, connection: Connection, director: str) -> None:
        conversation = Conversation(connection, director, self.supervisor, self.settings.name)
        # A director that reconnects replaces its older connection, which may be dead.
        self._conversations[director] = conversation
        _log.info("Director %s: connected", director)
        try:
            await conversation.hold()
        finally:
            if self._conversations.get(director) is conversation:
                del self._conversations[director]

    async def _listen(self) -> None:
        if not self.settings.listen_addresses:
            return
        identity = Identity.load(self.settings.identity_folder)
        require_own(identity, self.settings)
        context = server_context(identity)
        self._served = (context, identity.serial)
        for listening in listen(self.settings.listen_addresses, _BACKLOG, _HINT):
            server = await serve(
                self._answer,
                sock=listening,
                ssl=context,
                **self._options(),
            )
            self._servers.append(server)

    async def _stop_listening(self) -> None:
        for server in self._servers:
            server.close()
            await server.wait_closed()
        self._servers.clear()

    async def _answer(self, connection: ServerConnection) -> None:
        try:
            peer = self._judged(connection)
            await self._converse(connection, peer.name)
        except (OSError, TimeoutError, ConnectionClosed) as error:
            _log.warning("a director that dialled us: %s", _reason(error))
        except StrongroomError as error:
            _log.error("a director that dialled us: %s", error)

    def _judged(self, connection: ServerConnection) -> Peer:
        identity = Identity.load(self.settings.identity_folder)
        peer = identity.trust.judge(_certificate(connection), _DIRECTOR)
        director = self.settings.directors.get(peer.name)
        if director is None or not director.listens:
            raise PeerRefusedError(f"{peer} dials us, but no Director resource allows that")
        return peer


def require_own(identity: Identity, settings: AgentSettings) -> None:
    """PeerRefusedError for a certificate that is not of this agent."""
    if identity.role != "agent" or identity.name != settings.name:
        raise PeerRefusedError(
            f"the certificate in {settings.identity_folder} is of {identity.peer}, but this agent "
            f"is {settings.name!r}: enrol it, or correct the Client's Name"
        )


def _certificate(connection: Connection) -> bytes:
    found = connection.transport.get_extra_info("ssl_object")
    certificate: bytes | None = None if found is None else found.getpeercert(binary_form=True)
    if certificate is None:
        raise PeerRefusedError("the peer presented no certificate")
    return certificate


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, ConnectionClosed) and error.rcvd is not None and error.rcvd.reason:
        return f"it ended the connection: {error.rcvd.reason}"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


async def _end(task: asyncio.Task[None]) -> None:
    """Cancel a task, repeatedly if it swallowed a cancellation."""
    while not task.done():
        task.cancel()
        await asyncio.wait((task,), timeout=_END_AGAIN_SECONDS)
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("%s failed: %s", task.get_name(), error, exc_info=error)
