"""Log lines that clients cause: of each client a few a minute, then how many more there were.

Local peers are not limited. One lock, held for moments.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from strongroom import clock
from strongroom.daemons.log_lines import one_line
from strongroom.net.identities.peer import LOCAL_ROLE

if TYPE_CHECKING:
    import logging

    from strongroom.net.identities.peer import Peer

MOST_LINES: Final = 10
LINES_SECONDS: Final = 60.0
# Names and errors are shorter; what is longer was made to be long.
_LONGEST_LINE: Final = 1024


@dataclass(slots=True)
class _Count:
    until: float
    said: int = 0
    unsaid: int = 0


class ClientLines:
    """See the module's docstring."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, str], _Count] = {}

    def say(self, level: int, peer: Peer, message: str, *values: object) -> None:
        """Log a line about a client, or count it."""
        if peer.role != LOCAL_ROLE and not self._may_say(peer):
            return
        text = one_line(message % values)
        if len(text) > _LONGEST_LINE:
            text = f"{text[:_LONGEST_LINE]}..."
        self._log.log(level, "%s", text)

    def flush(self) -> None:
        """Say how many lines were left out in minutes that are over; called regularly."""
        now = clock.elapsed_seconds()
        with self._lock:
            over = {key: one for key, one in self._counts.items() if now >= one.until}
            for key in over:
                del self._counts[key]
        for (role, name), one in over.items():
            if one.unsaid:
                self._log.warning("%s %r: %d more lines like these", role, name, one.unsaid)

    def _may_say(self, peer: Peer) -> bool:
        self.flush()
        now = clock.elapsed_seconds()
        with self._lock:
            key = (peer.role, peer.name)
            count = self._counts.setdefault(key, _Count(now + LINES_SECONDS))
            count.said += 1
            if count.said > MOST_LINES:
                count.unsaid += 1
                return False
            return True
