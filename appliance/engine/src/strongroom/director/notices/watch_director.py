"""What is wrong at the director itself: configuration, clock, what it cannot deliver, its agents.

A changed configuration that it refused when it was asked to reload it; a clock that jumped;
destinations that accept nothing, of which the others are reported; two agents with one identity.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.director.catalog.incidents import Condition
from strongroom.director.catalog.outbox import Failing, OutgoingMessage
from strongroom.director.catalog.rivals import Rivalry
from strongroom.director.clock_guard import ClockGuard
from strongroom.director.context import DirectorContext
from strongroom.director.notices.targets import name_of

CLOCK_TOPIC: Final = "clock"
CONFIGURATION_TOPIC: Final = "configuration"
OUTBOX_TOPIC: Final = "notices:"
RIVALS_TOPIC: Final = "agents:"
# Anyone who reloads by hand sees it at once, and fixes it.
PATIENCE_SECONDS: Final = 300.0
_PATIENCE_NS: Final = 3600 * SECOND_NS
_RECENT_NS: Final = 86400 * SECOND_NS


@dataclass(slots=True)
class ConfigurationWatch:
    """Remembers since when it is refused."""

    context: DirectorContext
    _since: float = 0.0
    _since_ns: int = 0

    def conditions(self) -> list[Condition]:
        """The refusal, once it has lasted."""
        errors = self.context.reload_errors
        if not errors:
            self._since_ns = 0
            return []
        if not self._since_ns:
            self._since, self._since_ns = clock.elapsed_seconds(), clock.now_ns()
        if clock.elapsed_seconds() - self._since < PATIENCE_SECONDS:
            return []
        more = f" (and {len(errors) - 1} more errors)" if len(errors) > 1 else ""
        return [
            Condition(
                event="configuration-refused",
                topic=CONFIGURATION_TOPIC,
                title="the changed configuration is refused; the one before it stays in force",
                detail=errors[0] + more,
                since_ns=self._since_ns,
            )
        ]


def undelivered(failing: Mapping[str, Failing], dead: Sequence[OutgoingMessage]) -> list[Condition]:
    """A condition for each destination that has failed for an hour, or was given up today.

    It lasts until the destination accepts something.
    """
    now_ns = clock.now_ns()
    found = {
        destination: one
        for destination, one in failing.items()
        # One in the future: the clock was ahead.
        if not now_ns - _PATIENCE_NS < one.since_ns <= now_ns + _PATIENCE_NS
    }
    for letter in dead:
        if letter.failed_ns > now_ns - _RECENT_NS:
            found.setdefault(letter.destination, Failing(letter.created_ns, letter.error))
    return [
        Condition(
            event="notices-undelivered",
            topic=OUTBOX_TOPIC + destination,
            title=f"messages cannot be delivered to {name_of(destination)}",
            detail=one.error,
            since_ns=one.since_ns,
        )
        for destination, one in found.items()
    ]


def clock_conditions(guard: ClockGuard) -> Iterator[Condition]:
    """That the clock jumped, or does so again and again; nothing where it is trusted."""
    if not guard.obstacle:
        return
    if guard.is_unsteady:
        yield Condition(
            event="clock-unsteady",
            topic=CLOCK_TOPIC,
            title="the director's clock keeps jumping, so no snapshots are forgotten",
            detail=guard.obstacle,
            remedy="see what sets the clock (timedatectl, the host of a virtual machine)",
            since_ns=clock.now_ns() - int(guard.untrusted_seconds * SECOND_NS),
        )
        return
    yield Condition(
        event="clock-jump",
        topic=CLOCK_TOPIC,
        title="the director's clock jumped",
        detail=f"{guard.obstacle}. Until then no snapshots are forgotten, and no job is reported "
        "as overdue",
        since_ns=clock.now_ns(),
    )


def rival_conditions(rivals: Mapping[str, Rivalry]) -> Iterator[Condition]:
    """The incidents of all of them."""
    for client, one in list(rivals.items()):
        yield Condition(
            event="two-agents",
            topic=RIVALS_TOPIC + client,
            title=f"two agents have the identity of {client}, and its backups wait",
            detail=one.text(),
            remedy="on the copy: strongroom agent rejoin; or end the copy: that counts in an hour",
            since_ns=one.since_ns,
            client=client,
        )
