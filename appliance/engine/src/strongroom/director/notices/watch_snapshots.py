"""Snapshots that an operator has to look at: false, lost by a store, unknown, without a copy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from strongroom.base import clock
from strongroom.base.clock import utc_text
from strongroom.base.quantities import counted
from strongroom.director.catalog.database import Catalog
from strongroom.director.catalog.incidents import Condition
from strongroom.director.catalog.snapshots import (
    false_snapshots,
    missed_snapshots,
    missed_text,
)
from strongroom.director.context import DirectorContext
from strongroom.director.runs.copy_queues import LATE_NS

TOPIC: Final = "snapshot:"
UNKNOWN_TOPIC: Final = "unknown:"
COPIES_TOPIC: Final = "copies:"
# Beyond that the false snapshots of a client are reported together: an agent can make any number.
_MOST_OF_ONE: Final = 20


def suspect_snapshots(catalog: Catalog) -> Iterator[Condition]:
    """Those that the catalog knows of. Blocks. Raises CatalogError."""
    now_ns = clock.now_ns()
    counts: Counter[str] = Counter()
    for one in reversed(false_snapshots(catalog)):
        counts[one.client] += 1
        if counts[one.client] > _MOST_OF_ONE:
            continue
        yield Condition(
            event="false-snapshot",
            topic=TOPIC + one.id[:64],
            title=f"snapshot {one.id[:8]} of {one.client} is false",
            detail=one.false_reason,
            since_ns=now_ns,
            job=one.job,
            client=one.client,
            storage=one.storage,
        )
    for client, count in counts.items():
        if count > _MOST_OF_ONE:
            yield Condition(
                event="false-snapshot",
                topic=f"{TOPIC}more:{client}",
                title=f"more than {_MOST_OF_ONE} snapshots of {client} are false",
                since_ns=now_ns,
                client=client,
            )
    for one in missed_snapshots(catalog):
        yield Condition(
            event="snapshot-missing",
            topic=TOPIC + one.id[:64],
            title=f"snapshot {one.id[:8]} of {one.client} is missing from {one.storage}",
            detail=missed_text(one),
            since_ns=now_ns,
            job=one.job,
            client=one.client,
            storage=one.storage,
        )


def unknown_snapshots(storage: str, made: Mapping[str, int]) -> list[Condition]:
    """Snapshots in a repository whose runs the catalog does not know. made: id -> when it was."""
    if not made:
        return []
    newest = max(made, key=made.__getitem__)
    ends = min(made.values()), max(made.values())
    first, last = (utc_text(time_ns)[:16].replace("T", " ") for time_ns in ends)
    return [
        Condition(
            event="snapshots-unknown",
            topic=UNKNOWN_TOPIC + storage,
            title=f"the catalog lacks snapshots that are in storage {storage}",
            detail=f"{len(made):,}, of {first} to {last} UTC, the newest is {newest[:16]}. Their "
            "runs are unknown, as after a return to an older copy of the catalog",
            remedy=f"strongroom catalog rebuild --storage {storage}; if the catalog is not an "
            "older copy, find out first what made them",
            since_ns=clock.now_ns(),
            storage=storage,
        )
    ]


def late_copies(context: DirectorContext) -> Iterator[Condition]:
    """Pools of which a snapshot has waited too long for its copy."""
    before_ns = clock.now_ns() - LATE_NS
    for one in context.copies:
        if one.waiting and one.behind_since_ns < before_ns:
            yield Condition(
                event="copy-late",
                topic=COPIES_TOPIC + one.pool,
                title=f"snapshots of pool {one.pool} have no copy in storage {one.storage}",
                detail=f"{counted(one.waiting, 'snapshot')}, the oldest waits since "
                f"{clock.utc_text(one.behind_since_ns)[:16].replace('T', ' ')} UTC",
                remedy=f"strongroom runs --job {one.job} shows why; of a snapshot that is damaged "
                "there is no copy: strongroom forget ID gives it up",
                since_ns=one.behind_since_ns,
                job=one.job,
                storage=one.storage,
            )
