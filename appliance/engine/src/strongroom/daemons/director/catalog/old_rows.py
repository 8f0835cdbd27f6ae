"""Rows of the catalog that nobody needs any more: old runs, and entries of removed snapshots.

What the rules of jobs go by stays however old it is: of each job and client the newest run of each
state, from which lateness is judged, and the newest snapshot of each level, from which the age of
the last full backup is known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import and_, delete, exists, or_, select

from strongroom.daemons.director.catalog.tables import GONE, RUNS, SNAPSHOTS
from strongroom.daemons.director.results.runs import FINAL_STATES

if TYPE_CHECKING:
    from strongroom.daemons.director.catalog.database import Catalog


def remove_old_runs(catalog: Catalog, before_ns: int) -> int:
    """Remove runs that ended before then and have no existing snapshot; returns how many."""
    kept = select(SNAPSHOTS.c.run).where(SNAPSHOTS.c.removed_ns == 0)
    newer = RUNS.alias("newer")
    old = and_(
        RUNS.c.state.in_(FINAL_STATES),
        RUNS.c.ended_ns < before_ns,
        RUNS.c.aftermath == "",
        or_(RUNS.c.snapshot == "", RUNS.c.id.not_in(kept)),
        exists().where(
            *(newer.c[name] == RUNS.c[name] for name in ("job", "client", "state")),
            newer.c.scheduled_ns > RUNS.c.scheduled_ns,
        ),
    )
    with catalog.writing() as connection:
        return connection.execute(delete(RUNS).where(old)).rowcount


def remove_old_snapshots(catalog: Catalog, before_ns: int) -> int:
    """Remove what is known of snapshots that were removed before then; returns how many."""
    newer = SNAPSHOTS.alias("newer")
    same = ("client", "job", "storage", "level", "original")
    has_newer = exists().where(
        *(newer.c[name] == SNAPSHOTS.c[name] for name in same),
        newer.c.server_ns > SNAPSHOTS.c.server_ns,
        newer.c.false_reason == "",
        # One that is missed is told of until there is a newer one.
        or_(
            SNAPSHOTS.c.removed_reason != GONE,
            newer.c.removed_ns == 0,
            newer.c.removed_reason == GONE,
        ),
    )
    old = and_(
        SNAPSHOTS.c.removed_ns != 0,
        SNAPSHOTS.c.removed_ns < before_ns,
        # Nothing goes by copies that are no more.
        or_(has_newer, SNAPSHOTS.c.original != ""),
    )
    with catalog.writing() as connection:
        return connection.execute(delete(SNAPSHOTS).where(old)).rowcount
