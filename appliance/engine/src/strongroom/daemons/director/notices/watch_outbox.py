"""Destinations that take nothing: the others are told of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strongroom import clock
from strongroom.clock import SECOND_NS
from strongroom.daemons.director.catalog.incidents import Condition
from strongroom.daemons.director.runs.targets import name_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from strongroom.daemons.director.catalog.outbox import OutgoingMessage

TOPIC: Final = "notices:"
_PATIENCE_NS: Final = 3600 * SECOND_NS
_RECENT_NS: Final = 86400 * SECOND_NS


def undelivered(
    messages: Mapping[str, Sequence[OutgoingMessage]], dead: Sequence[OutgoingMessage]
) -> list[Condition]:
    """A condition for each destination that has failed for an hour, or was given up today."""
    now_ns = clock.now_ns()
    oldest: dict[str, OutgoingMessage] = {}
    for destination, queued in messages.items():
        first = queued[0]
        if first.attempts and first.created_ns <= now_ns - _PATIENCE_NS:
            oldest[destination] = first
    for one in dead:
        if one.failed_ns > now_ns - _RECENT_NS:
            oldest.setdefault(one.destination, one)
    return [
        Condition(
            event="notices-undelivered",
            topic=TOPIC + destination,
            title=f"nothing can be delivered to {name_of(destination)}",
            detail=one.error,
            remedy="strongroom notify list; strongroom notify test",
            since_ns=one.created_ns,
        )
        for destination, one in oldest.items()
    ]
