"""Connection limits of the API, and the names in peers' certificates.

At most MOST_HANDSHAKES TLS handshakes are active at once, and MOST_HANDSHAKES_OF_AN_ADDRESS from
one address. Without a certificate an address has at most MOST_OF_AN_ADDRESS connections; an
agent has at most MOST_OF_AN_AGENT, another certified peer MOST_OF_A_NAME, by role and name,
WebSockets included. Connections above a limit are closed at once.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

from strongroom.errors import PeerRefusedError
from strongroom.net.channels.unauthenticated import (
    StrangersLog,
    UnauthenticatedConnections,
    network_of,
)
from strongroom.net.identities.peer import Peer, parse_certificate, peer_of

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_HANDSHAKES: Final = 1024
MOST_HANDSHAKES_OF_AN_ADDRESS: Final = 256
MOST_OF_AN_ADDRESS = 64
MOST_OF_AN_AGENT = 16
MOST_OF_A_NAME = 256

_log = logging.getLogger(__name__)
_nameless = StrangersLog(_log, "%d more certificates name no peer")


class CertifiedPeer(NamedTuple):
    """The peer of a connection.

    `expires_at`: the end of the certificate, unix time in seconds. `certificate`: the whole, DER.
    """

    peer: Peer
    expires_at: float
    certificate: bytes


class ConnectionLimits:
    """Counts connections of one server. For its event loop only."""

    def __init__(self) -> None:
        self.handshakes = UnauthenticatedConnections(MOST_HANDSHAKES, MOST_HANDSHAKES_OF_AN_ADDRESS)
        self.refused_handshakes = 0
        self._strangers_log = StrangersLog(_log)
        self._too_many_log = StrangersLog(_log)
        # Address, or role and name of a certificate -> number of connections.
        self._open: Counter[str] = Counter()

    def begin_handshake(self, address: str) -> bool:
        """Count a handshake until `end_handshake`; False when there are too many."""
        if reason := self.handshakes.enter(address):
            self.refused_handshakes += 1
            self._strangers_log.warn("%s: not let in: %s", address, reason)
            return False
        return True

    def end_handshake(self, address: str) -> None:
        """The handshake is done, or the connection is closed."""
        self.handshakes.leave(address)

    def enter(self, certified: CertifiedPeer | None, address: str) -> bool:
        """Count a connection after its handshake until `leave`; False when there are too many."""
        if certified is None:
            most = MOST_OF_AN_ADDRESS
        else:
            most = MOST_OF_AN_AGENT if certified.peer.role == "agent" else MOST_OF_A_NAME
        counted = _counted_as(certified, address)
        if self._open[counted] >= most:
            self._too_many_log.warn("%s has %d connections already", counted, most)
            return False
        self._open[counted] += 1
        return True

    def leave(self, certified: CertifiedPeer | None, address: str) -> None:
        """A connection that was counted by `enter` is closed."""
        counted = _counted_as(certified, address)
        self._open[counted] -= 1
        if not self._open[counted]:
            del self._open[counted]

    def open_connections(self) -> Iterator[tuple[str, int]]:
        """Number of connections by address, or by role and name of a certificate."""
        yield from self._open.items()

    def flush(self) -> None:
        """Log how many lines were suppressed; call it now and then."""
        self._strangers_log.flush()
        self._too_many_log.flush()


def _counted_as(certified: CertifiedPeer | None, address: str) -> str:
    return network_of(address) if certified is None else str(certified.peer)


def certified_peer(certificate: bytes | None) -> CertifiedPeer | None:
    """The peer named in the certificate (DER) of a TLS connection; None without one."""
    if not certificate:
        return None
    try:
        # TLS has checked that our authority issued it and that it is valid now.
        parsed = parse_certificate(certificate)
        expires_at = parsed.not_valid_after_utc.timestamp()
        return CertifiedPeer(peer_of(parsed), expires_at, certificate)
    except PeerRefusedError as error:
        _nameless.warn("a certificate names no peer: %s", error)
        return None
