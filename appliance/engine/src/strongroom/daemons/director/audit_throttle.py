"""Refused attempts in the audit log: of each caller a few a minute, then how many more there were.

What was done is always recorded one by one; what was refused costs its caller nothing, so that an
agent could fill the catalog with it. For the event loop only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from strongroom import clock
from strongroom.daemons.director.results.access import Actor
from strongroom.net.channels.unauthenticated import network_of

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_ENTRIES: Final = 10
ENTRIES_SECONDS: Final = 60.0
# More callers than this within a minute are counted together.
_MOST_CALLERS: Final = 1000


class LeftOutEntries(NamedTuple):
    """Entries that were not written."""

    who: Actor
    action: str
    result: str
    number: int


@dataclass(slots=True)
class _Count:
    who: Actor
    until: float
    written: int = 0
    left_out: int = 0


class AuditThrottle:
    """See the module's docstring."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str, str, str, str], _Count] = {}

    def admit(self, who: Actor, action: str, result: str) -> bool:
        """Whether one more refusal is recorded; it is counted either way."""
        key = (who.name, who.role, network_of(who.address), action, result)
        if key not in self._counts and len(self._counts) >= _MOST_CALLERS:
            key, who = ("", "", "", action, result), Actor("", "")
        count = self._counts.get(key)
        if count is None:
            count = self._counts[key] = _Count(who, clock.elapsed_seconds() + ENTRIES_SECONDS)
        if count.written < MOST_ENTRIES:
            count.written += 1
            return True
        count.left_out += 1
        return False

    def over(self, *, at_end: bool = False) -> Iterator[LeftOutEntries]:
        """What was left out in minutes that are over; `at_end`: in all."""
        now = clock.elapsed_seconds()
        for key, count in list(self._counts.items()):
            if at_end or now >= count.until:
                del self._counts[key]
                if count.left_out:
                    yield LeftOutEntries(count.who, key[3], key[4], count.left_out)
