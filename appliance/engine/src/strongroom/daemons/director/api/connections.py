"""One HTTP connection as uvicorn serves it, with two things added: the peer, and deadlines.

uvicorn hands no handler the certificate that the peer showed. Here it is read once a connection,
when TLS is up, and stands as `peer` in the state of every request, and of the WebSocket that a
request becomes. A connection that brings no whole request head in time is closed, however slowly
it trickles. Of connections without a certificate, which anybody can open, one address has at most
MOST_OF_AN_ADDRESS; who shows one of an agent has MOST_OF_AN_AGENT, who shows another
MOST_OF_A_NAME, by role and name, WebSockets included. More are closed at once.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from strongroom.daemons.director.api.handshakes import (
    MOST_HANDSHAKES,
    MOST_HANDSHAKES_OF_AN_ADDRESS,
    Handshakes,
)
from strongroom.errors import PeerRefusedError
from strongroom.net.channels.unauthenticated import StrangersLog, network_of
from strongroom.net.identities.peer import Peer, parse_certificate, peer_of

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

REQUEST_HEAD_TIMEOUT_SECONDS = 30.0
LINGER_SECONDS = 0.5
MOST_OF_AN_ADDRESS = 64
MOST_OF_AN_AGENT = 16
MOST_OF_A_NAME = 256

_log = logging.getLogger(__name__)
_nameless = StrangersLog(_log, "%d more certificates say nothing")


class CertifiedPeer(NamedTuple):
    """Who is at the other end.

    `expires_at`: the end of the certificate, unix time in seconds. `certificate`: the whole, DER.
    """

    peer: Peer
    expires_at: float
    certificate: bytes


class AgentSocket(WebSocketsSansIOProtocol):
    """What a connection becomes when it is to be a WebSocket. `on_lost` is called when it ends."""

    on_lost: Callable[[], None] | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        """It has ended."""
        if self.on_lost is not None:
            self.on_lost()
        super().connection_lost(exc)


class Connection(H11Protocol):
    """A connection of the director's API."""

    _head_timer: asyncio.TimerHandle | None = None
    _counted = ""
    # Address, or whom a certificate names -> how many connections it has; event loop only.
    _held: ClassVar[Counter[str]] = Counter()
    too_many: ClassVar[StrangersLog] = StrangersLog(_log)
    handshakes: ClassVar[Handshakes] = Handshakes(MOST_HANDSHAKES, MOST_HANDSHAKES_OF_AN_ADDRESS)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Learn who connected. A peer whose certificate says nothing we know is nobody."""
        super().connection_made(transport)
        self.handshakes.finished_on(transport)
        certified = certified_peer(transport)
        self.app_state = {**self.app_state, "certified": certified, "abort": transport.abort}
        if not self._count(certified):
            transport.abort()
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the deadline, and the connection."""
        self._stop_waiting()
        self._uncount()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take data; the deadline ends with a whole head and begins again after the answer."""
        super().data_received(data)
        if self._is_answering:
            self._stop_waiting()
        elif self._head_timer is None:
            self._await_head()

    def handle_websocket_upgrade(self, event: object) -> None:
        """Hand the connection over; heartbeats watch it from here on."""
        self._stop_waiting()
        super().handle_websocket_upgrade(event)  # type: ignore[arg-type]
        upgraded = self.transport.get_protocol()
        assert isinstance(upgraded, AgentSocket)
        upgraded.on_lost = self._uncount

    def shutdown(self) -> None:
        """End with the answer under way; a peer that does not close its side in turn is cut off.

        An idle client reads nothing, so it would keep the director waiting.
        """
        super().shutdown()
        self.loop.call_later(LINGER_SECONDS, self._cut)

    def _cut(self) -> None:
        if self._is_answering:
            self.loop.call_later(LINGER_SECONDS, self._cut)
        else:
            self.transport.abort()

    @property
    def _is_answering(self) -> bool:
        upgraded = self.transport.get_protocol() is not self
        return upgraded or (self.cycle is not None and not self.cycle.response_complete)

    def _count(self, certified: CertifiedPeer | None) -> bool:
        """Count the connection until `_uncount`; False when there are too many."""
        if certified is not None:
            most = MOST_OF_AN_AGENT if certified.peer.role == "agent" else MOST_OF_A_NAME
            self._counted = str(certified.peer)
        elif self.client is not None:
            most = MOST_OF_AN_ADDRESS
            self._counted = network_of(self.client[0])
        else:
            return True
        self._held[self._counted] += 1
        if self._held[self._counted] <= most:
            return True
        self.too_many.warn("%s has %d connections already", self._counted, most)
        return False

    def _uncount(self) -> None:
        if self._counted:
            self._held[self._counted] -= 1
            if not self._held[self._counted]:
                del self._held[self._counted]
            self._counted = ""

    def _await_head(self) -> None:
        self._head_timer = self.loop.call_later(REQUEST_HEAD_TIMEOUT_SECONDS, self._give_up)

    def _stop_waiting(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _give_up(self) -> None:
        self._head_timer = None
        if not self._is_answering:
            self.transport.close()


def certified_peer(transport: asyncio.BaseTransport) -> CertifiedPeer | None:
    """Whom the certificate of a TLS connection names; None without one."""
    socket = transport.get_extra_info("ssl_object")
    certificate = None if socket is None else socket.getpeercert(binary_form=True)
    if not certificate:
        return None
    try:
        # TLS has checked that our authority issued it and that its time has come and not passed.
        parsed = parse_certificate(certificate)
        expires_at = parsed.not_valid_after_utc.timestamp()
        return CertifiedPeer(peer_of(parsed), expires_at, certificate)
    except PeerRefusedError as error:
        _nameless.warn("a certificate says nothing: %s", error)
        return None
