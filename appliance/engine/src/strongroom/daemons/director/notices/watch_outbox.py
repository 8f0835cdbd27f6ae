"""Destinations that accept nothing: the others are told of it, and `status` says so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strongroom import clock
from strongroom.clock import SECOND_NS
from strongroom.daemons.director.catalog.incidents import Condition
from strongroom.daemons.director.catalog.outbox import Failing
from strongroom.daemons.director.runs.targets import name_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from strongroom.daemons.director.catalog.outbox import OutgoingMessage

TOPIC: Final = "notices:"
_PATIENCE_NS: Final = 3600 * SECOND_NS
_RECENT_NS: Final = 86400 * SECOND_NS


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
            topic=TOPIC + destination,
            title=f"nothing can be delivered to {name_of(destination)}",
            detail=one.error,
            remedy="strongroom notify list; strongroom notify test",
            since_ns=one.since_ns,
        )
        for destination, one in found.items()
    ]
