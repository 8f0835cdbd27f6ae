"""Pools with Copy To: whether the copies follow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from strongroom.base import clock
from strongroom.base.quantities import counted
from strongroom.director.catalog.incidents import Condition
from strongroom.director.context import DirectorContext
from strongroom.director.runs.copy_queues import LATE_NS

TOPIC: Final = "copies:"


def late_copies(context: DirectorContext) -> Iterator[Condition]:
    """Pools of which a snapshot has waited too long for its copy."""
    before_ns = clock.now_ns() - LATE_NS
    for one in context.copies:
        if one.waiting and one.behind_since_ns < before_ns:
            yield Condition(
                event="copy-late",
                topic=TOPIC + one.pool,
                title=f"snapshots of pool {one.pool} have no copy in storage {one.storage}",
                detail=f"{counted(one.waiting, 'snapshot')}, the oldest waits since "
                f"{clock.utc_text(one.behind_since_ns)[:16].replace('T', ' ')} UTC",
                remedy=f"strongroom runs --job {one.job} shows why; of a snapshot that is damaged "
                "there is no copy: strongroom forget ID gives it up",
                since_ns=one.behind_since_ns,
                job=one.job,
                storage=one.storage,
            )
