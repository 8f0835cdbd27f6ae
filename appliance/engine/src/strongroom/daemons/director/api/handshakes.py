"""How many TLS handshakes may be under way at the API, counted where connections are accepted.

asyncio tells a protocol of a connection only when TLS is up, and tells nobody of one that never
gets there. So the listening socket itself counts: from accepting until `finished`, or until the
connection is closed, whichever comes first. More than allowed are closed at once. A handshake as a
whole has HANDSHAKE_TIMEOUT_SECONDS (asyncio's own timer), however slowly it trickles.
"""

from __future__ import annotations

import logging
import socket
from typing import Any, Final

from strongroom.net.unproven import StrangersLog, UnprovenConnections

HANDSHAKE_TIMEOUT_SECONDS: Final = 20.0
MOST_HANDSHAKES: Final = 1024
MOST_HANDSHAKES_OF_AN_ADDRESS: Final = 256

_log = logging.getLogger(__name__)


class Handshakes:
    """Those under way, and how many were not let begin. For the event loop only."""

    def __init__(self, most: int, most_of_an_address: int) -> None:
        self.unproven = UnprovenConnections(most, most_of_an_address)
        self.strangers = StrangersLog(_log)
        self.refused = 0
        self._under_way: dict[object, str] = {}

    def begin(self, address: Any) -> bool:
        """Count a connection from a socket address; False when there are too many."""
        if reason := self.unproven.enter(address[0]):
            self.refused += 1
            self.strangers.warn("%s: not let in: %s", address[0], reason)
            return False
        self._under_way[address] = address[0]
        return True

    def finished(self, address: object) -> None:
        """TLS is up, or the connection is gone; may be said twice."""
        host = self._under_way.pop(address, None)
        if host is not None:
            self.unproven.leave(host)


class CountingListener(socket.socket):
    """A listening socket whose `accept` gives only connections that may begin a handshake."""

    def __init__(self, family: int, handshakes: Handshakes) -> None:
        super().__init__(family, socket.SOCK_STREAM)
        self._handshakes = handshakes

    def accept(self) -> tuple[socket.socket, Any]:
        """The next one. Raises BlockingIOError when there is none."""
        while True:
            connection, address = super().accept()
            if self._handshakes.begin(address):
                return _Accepted(connection.detach(), address, self._handshakes), address
            connection.close()


class _Accepted(socket.socket):
    def __init__(self, descriptor: int, address: object, handshakes: Handshakes) -> None:
        super().__init__(fileno=descriptor)
        self._address = address
        self._handshakes = handshakes

    def close(self) -> None:
        self._handshakes.finished(self._address)
        super().close()
