"""How many TLS handshakes may be under way at the API, counted where connections are accepted.

asyncio tells a protocol of a connection only when TLS is up, and tells nobody of one that never
gets there. So the listening socket itself counts: from accepting until `finished`, or until the
connection is closed, whichever comes first. More than allowed are closed at once. A handshake as a
whole has HANDSHAKE_TIMEOUT_SECONDS (asyncio's own timer), however slowly it trickles.

A connection is known by its descriptor, which no other has while it is open. Addresses would not
do: a peer can come from one port to several addresses of ours, and again before we saw it go.
"""

from __future__ import annotations

import logging
import socket
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from strongroom import clock
from strongroom.net.channels.unauthenticated import StrangersLog, UnprovenConnections

if TYPE_CHECKING:
    import asyncio

HANDSHAKE_TIMEOUT_SECONDS: Final = 20.0
MOST_HANDSHAKES: Final = 1024
MOST_HANDSHAKES_OF_AN_ADDRESS: Final = 256
# Longer than any can last. What is found to be older was lost count of, and is forgotten.
_FORGOTTEN_AFTER_SECONDS: Final = 3 * HANDSHAKE_TIMEOUT_SECONDS

_log = logging.getLogger(__name__)


class _UnderWay(NamedTuple):
    host: str
    began_at: float


class Handshakes:
    """Those under way, and how many were not let begin. For the event loop only."""

    def __init__(self, most: int, most_of_an_address: int) -> None:
        self.unproven = UnprovenConnections(most, most_of_an_address)
        self.strangers = StrangersLog(_log)
        self.refused = 0
        # Descriptor -> handshake, the oldest first.
        self._under_way: dict[int, _UnderWay] = {}

    def begin(self, descriptor: int, host: str) -> bool:
        """Count an open connection from an address; False when there are too many."""
        now = clock.elapsed_seconds()
        # Whoever had the descriptor before is gone.
        self.finished(descriptor)
        self._forget_lost(now)
        if reason := self.unproven.enter(host):
            self.refused += 1
            self.strangers.warn("%s: not let in: %s", host, reason)
            return False
        self._under_way[descriptor] = _UnderWay(host, now)
        return True

    def finished(self, descriptor: int) -> None:
        """TLS is up, or the connection is about to be closed; may be said twice."""
        handshake = self._under_way.pop(descriptor, None)
        if handshake is not None:
            self.unproven.leave(handshake.host)

    def finished_on(self, transport: asyncio.BaseTransport) -> None:
        """TLS is up on a connection."""
        connection = transport.get_extra_info("socket")
        if connection is not None:
            self.finished(connection.fileno())

    def _forget_lost(self, now: float) -> None:
        while self._under_way:
            descriptor, oldest = next(iter(self._under_way.items()))
            if now - oldest.began_at < _FORGOTTEN_AFTER_SECONDS:
                return
            self.finished(descriptor)


class CountingListener(socket.socket):
    """A listening socket whose `accept` gives only connections that may begin a handshake."""

    def __init__(self, family: int, handshakes: Handshakes) -> None:
        super().__init__(family, socket.SOCK_STREAM)
        self._handshakes = handshakes

    def accept(self) -> tuple[socket.socket, Any]:
        """The next one. Raises BlockingIOError when there is none."""
        while True:
            connection, address = super().accept()
            if self._handshakes.begin(connection.fileno(), address[0]):
                return _Accepted(connection.detach(), self._handshakes), address
            connection.close()


class _Accepted(socket.socket):
    def __init__(self, descriptor: int, handshakes: Handshakes) -> None:
        super().__init__(fileno=descriptor)
        self._handshakes = handshakes

    def close(self) -> None:
        # While it is open the descriptor is its own; closed before, it has -1.
        self._handshakes.finished(self.fileno())
        super().close()
