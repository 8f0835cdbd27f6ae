"""What the catalog knows of each job's last runs, for judging whether everything is OK."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, and_, func, not_, select

from strongroom.base.clock import SECOND_NS
from strongroom.director.catalog.database import Catalog
from strongroom.director.catalog.runs import among, run_of_row
from strongroom.director.catalog.tables import RUNS
from strongroom.director.results.runs import Run

# Runs of these kinds are of jobs that are expected to succeed; a restore has somebody watching it.
KINDS: Final = ("backup", "verify", "copy", "admin")
# A run that somebody cancelled says nothing about its job.
_BY_SOMEBODY: Final = "cancelled by %"
# No one cancelled it: it could not start before its deadline, or before the next one was due.
_BY_ITSELF: Final = ("time-limit", "replaced")
_RECENT_RUNS: Final = 20
# What is counted of runs that ended: of thousands, and other columns may hold 64 KiB of an agent's.
_COUNTED: Final = (
    "id", "job", "client", "kind", "state", "ended_ns", "stored_bytes", "storage",
)  # fmt: skip
# What tells how a run ended. There may be one of each job, and other columns can be long.
_OF_ENDS: Final = (
    "id", "job", "client", "kind", "level", "state", "error_id", "error", "reason", "errors",
    "started_ns", "ended_ns", "aftermath", "summary",
)  # fmt: skip


class JobHistory(NamedTuple):
    """Of a job: its last end, when its last good run was started, and when one was last queued.

    last: with what tells how it ended; the other fields have their defaults.
    """

    last: Run | None
    good_started_ns: int
    queued_ns: int

    @property
    def is_whole(self) -> bool:
        """Whether older runs can say no more."""
        return self.last is not None and bool(self.good_started_ns)


def job_histories(
    catalog: Catalog, job: str = "", since_ns: int = 0
) -> dict[tuple[str, str], JobHistory]:
    """(Job, client) -> its history; of one job only where one is named.

    since_ns: runs scheduled earlier are not checked, of which there may be very many.
    """
    of_kinds = [RUNS.c.kind.in_(KINDS), *([RUNS.c.job == job] if job else [])]
    if since_ns:
        of_kinds.append(RUNS.c.scheduled_ns >= since_ns)
    ended = [
        *of_kinds,
        RUNS.c.state.in_(("done", "incomplete", "failed", "cancelled")),
        not_(and_(RUNS.c.state == "cancelled", RUNS.c.error_id.not_in(_BY_ITSELF))),
        not_(RUNS.c.reason.like(_BY_SOMEBODY)),
    ]
    good = [*of_kinds, RUNS.c.state.in_(("done", "incomplete"))]
    with catalog.reading() as connection:
        newest = (
            select(RUNS.c.job, RUNS.c.client, func.max(RUNS.c.ended_ns).label("newest_ns"))
            .where(*ended)
            .group_by(RUNS.c.job, RUNS.c.client)
            .subquery()
        )
        same = and_(
            RUNS.c.job == newest.c.job,
            RUNS.c.client == newest.c.client,
            RUNS.c.ended_ns == newest.c.newest_ns,
        )
        query = select(*(RUNS.c[name] for name in _OF_ENDS)).join(newest, same).where(*ended)
        last = {(one.job, one.client): one for one in map(run_of_row, connection.execute(query))}
        started = _newest(connection, RUNS.c.started_ns, good)
        queued = _newest(connection, RUNS.c.queued_ns, of_kinds)
    return {
        of: JobHistory(last.get(of), started.get(of, 0), queued.get(of, 0))
        for of in {*last, *started, *queued}
    }


def longest_good_run_seconds(catalog: Catalog, job: str, client: str, level: str) -> float:
    """How long the longest of the last good runs of a level took, else of any; 0 without one."""
    recent = (
        select(RUNS.c.started_ns, RUNS.c.ended_ns, RUNS.c.level)
        .where(
            RUNS.c.job == job,
            RUNS.c.client == client,
            RUNS.c.state.in_(("done", "incomplete")),
            RUNS.c.started_ns != 0,
        )
        .order_by(RUNS.c.scheduled_ns.desc())
        .limit(_RECENT_RUNS)
    )
    rows = list(catalog.rows(recent))
    of_level = [row for row in rows if row.level == level] or rows
    lengths = [row.ended_ns - row.started_ns for row in of_level]
    return max(lengths, default=0) / SECOND_NS


def last_good_starts(catalog: Catalog, clients: Collection[str] | None = None) -> dict[str, int]:
    """Client -> when its last successful backup began; of some only."""
    good = [RUNS.c.kind == "backup", RUNS.c.state.in_(("done", "incomplete"))]
    query = (
        select(RUNS.c.client, func.max(RUNS.c.started_ns))
        .where(*good, *among(RUNS.c.client, clients))
        .group_by(RUNS.c.client)
    )
    return {row[0]: row[1] for row in catalog.rows(query)}


def ended_runs(catalog: Catalog, since_ns: int, most: int) -> list[Run]:
    """Runs that ended since then, the oldest first, at most so many of the newest.

    What a digest does not count or name has its default.
    """
    query = (
        select(*(RUNS.c[name] for name in _COUNTED))
        .where(RUNS.c.ended_ns > since_ns, RUNS.c.kind.in_((*KINDS, "restore")))
        .order_by(RUNS.c.ended_ns.desc())
        .limit(most)
    )
    return [run_of_row(row) for row in reversed(list(catalog.rows(query)))]


def _newest(
    connection: Any, column: ColumnElement[int], conditions: Sequence[ColumnElement[bool]]
) -> dict[tuple[str, str], int]:
    query = select(RUNS.c.job, RUNS.c.client, func.max(column).label("newest_ns"))
    rows = connection.execute(query.where(*conditions).group_by(RUNS.c.job, RUNS.c.client))
    return {(row.job, row.client): row.newest_ns for row in rows}
