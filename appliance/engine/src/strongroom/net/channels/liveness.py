"""Whether the peer's machine still answers, checked while we wait.

The peer's kernel acknowledges what we send and zero-window probes, however busy its process is. So
a peer whose disk takes minutes is alive, and one that acknowledges nothing for UNANSWERED_SECONDS
is gone. The kernel's own TCP_USER_TIMEOUT cannot tell the two apart: it ends a connection whose
window stays closed although every probe is answered. Where nothing is in flight, keepalive probes
instead (see channel.tune_socket).
"""

from __future__ import annotations

import select
import socket
import struct

from strongroom.base import clock
from strongroom.base.errors import ConnectionLostError

UNANSWERED_SECONDS = 120.0
# How often a waiting thread checks.
LOOK_SECONDS = 15.0

# struct tcp_info of linux/tcp.h: eight single bytes, then numbers of 32 bits.
_INFO = struct.Struct("=8B13I")
_PROBES = 3
_UNACKNOWLEDGED = 8 + 4
_SINCE_ACKNOWLEDGED_MS = 8 + 12


class PeerWatch:
    """For one thread that waits on a connection. Does nothing for a Unix socket."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._is_tcp = connection.family != socket.AF_UNIX
        self._unanswered_since: float | None = None

    def look(self) -> None:
        """ConnectionLostError after too long without an answer from the other machine."""
        if not self._is_tcp:
            return
        try:
            data = self._connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO.size)
        except OSError:
            # Closed meanwhile: the next call of the waiting thread fails.
            return
        info = _INFO.unpack(data)
        if not info[_UNACKNOWLEDGED] and not info[_PROBES]:
            self._unanswered_since = None
            return
        now = clock.elapsed_seconds()
        acknowledged = now - info[_SINCE_ACKNOWLEDGED_MS] / 1000
        since = now if self._unanswered_since is None else self._unanswered_since
        self._unanswered_since = since = max(since, acknowledged)
        # One probe may be lost by itself, and the next follow minutes later.
        is_asked = info[_UNACKNOWLEDGED] or info[_PROBES] > 1
        if is_asked and now - since >= UNANSWERED_SECONDS:
            raise ConnectionLostError(f"no answer from the other machine for {now - since:.0f} s")

    def poll(self, poller: select.poll, timeout_ms: float | None) -> list[tuple[int, int]]:
        """As `poller.poll`, checking liveness meanwhile. Raises ConnectionLostError."""
        left = timeout_ms
        while True:
            wait = LOOK_SECONDS * 1000 if left is None else min(left, LOOK_SECONDS * 1000)
            events = poller.poll(wait)
            if events:
                return events
            if left is not None:
                left -= wait
                if left <= 0:
                    return []
            self.look()
