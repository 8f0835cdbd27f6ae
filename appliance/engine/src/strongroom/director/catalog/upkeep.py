"""Rows of the catalog that no one needs any more, and times that a wrong clock wrote.

Old runs, entries of removed snapshots and tokens that have ended go. What the rules of jobs go by
stays however old it is: of each job and client the newest run of each state, from which lateness is
judged, and the newest snapshot of each level, from which the age of the last full backup is known.

Wrong times are moved to where they belong, once the clock is right. Left as they are, a snapshot of
the future would be the newest for months, a job would count as done until then, and a notice would
wait. The audit log and the logs of runs keep what was written.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import ColumnElement, Delete, Table, and_, case, delete, exists, or_, select, update

from strongroom.base.clock import SECOND_NS
from strongroom.director.catalog.copies import identity_of
from strongroom.director.catalog.database import Catalog, Changed, note_stale
from strongroom.director.catalog.state import read_state, write_state
from strongroom.director.catalog.tables import (
    CLIENTS,
    GONE,
    INCIDENTS,
    OUTBOX,
    RUNS,
    SNAPSHOTS,
)
from strongroom.director.catalog.tables import TOKENS as API_TOKENS
from strongroom.director.clock_guard import WrongTimes
from strongroom.director.results.runs import FINAL_STATES


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
    return _delete(catalog, delete(RUNS).where(old))


def remove_old_snapshots(catalog: Catalog, before_ns: int) -> int:
    """Remove what is known of snapshots that were removed before then; returns how many."""
    newer, there = SNAPSHOTS.alias("newer"), SNAPSHOTS.alias("there")
    same = ("client", "job", "storage", "level", "original")
    has_newer = exists().where(
        *(newer.c[name] == SNAPSHOTS.c[name] for name in same),
        newer.c.server_ns > SNAPSHOTS.c.server_ns,
        newer.c.false_reason == "",
        # One that is missed is reported until there is a newer one.
        or_(
            SNAPSHOTS.c.removed_reason != GONE,
            newer.c.removed_ns == 0,
            newer.c.removed_reason == GONE,
        ),
    )
    old = and_(
        SNAPSHOTS.c.removed_ns != 0,
        SNAPSHOTS.c.removed_ns < before_ns,
        # Nothing goes by copies that are no more, but that they are not to be made again while
        # there is something to make them from.
        or_(has_newer, SNAPSHOTS.c.original != ""),
        SNAPSHOTS.c.original.not_in(select(identity_of(there)).where(there.c.removed_ns == 0)),
    )
    return _delete(catalog, delete(SNAPSHOTS).where(old))


def remove_old_tokens(catalog: Catalog, before_ns: int) -> int:
    """Remove tokens that ended before then and are not reported any more; returns how many.

    The last one of its name and Profile stays: that it has ended is a problem until somebody makes
    another or withdraws it.
    """
    later = API_TOKENS.alias("later")
    of = and_(*(later.c[name] == API_TOKENS.c[name] for name in ("name", "profile")))
    ends_later = or_(later.c.expires_ns == 0, later.c.expires_ns > API_TOKENS.c.expires_ns)
    old = and_(
        API_TOKENS.c.expires_ns != 0,
        API_TOKENS.c.expires_ns < before_ns,
        exists().where(of, ends_later),
    )
    return _delete(catalog, delete(API_TOKENS).where(old))


def _delete(catalog: Catalog, statement: Delete) -> int:
    with catalog.writing() as connection:
        count = connection.execute(statement).rowcount
        if count:
            note_stale(connection, Changed())
    return count


# Each of these times was read from the clock.
_READ: Final = (
    (CLIENTS, ("enrolled_ns", "last_seen_ns")),
    (RUNS, ("scheduled_ns", "queued_ns", "started_ns", "ended_ns", "given_up_ns")),
    (SNAPSHOTS, ("start_ns", "server_ns", "removed_ns")),
    (INCIDENTS, ("since_ns", "opened_ns", "ended_ns")),
    (OUTBOX, ("failed_ns",)),
    (API_TOKENS, ("last_used_ns",)),
)
# These follow from the first of their row.
_DERIVED: Final = (
    (OUTBOX, ("created_ns", "expires_ns")),
    (API_TOKENS, ("created_ns", "expires_ns")),
)
# These follow from a time that is in no row: the next attempt, and what a run waits for.
_PENDING: Final = ((OUTBOX, ("not_before_ns",)), (RUNS, ("not_before_ns", "deadline_ns")))
_LONGEST_WAIT_NS: Final = 31 * 86400 * SECOND_NS
EXPECTED_JOBS: Final = "expected jobs"


def redate(catalog: Catalog, wrong: WrongTimes) -> int:
    """Move the times that were wrong; returns in how many rows. Blocks. Raises CatalogError."""

    def is_wrong(column: ColumnElement[int], until_ns: int = wrong.until_ns) -> ColumnElement[bool]:
        return column.between(wrong.since_ns, until_ns)

    def moved(table: Table, names: tuple[str, ...], until_ns: int) -> dict[str, object]:
        columns = [table.c[name] for name in names]
        return {
            one.name: case((is_wrong(one, until_ns), one + wrong.by_ns), else_=one)
            for one in columns
        }

    count = 0
    with catalog.writing() as connection:
        note_stale(connection, Changed())
        for table, (first, *others) in _DERIVED:
            later = {
                name: case((table.c[name] != 0, table.c[name] + wrong.by_ns), else_=0)
                for name in others
            }
            change = update(table).where(is_wrong(table.c[first]))
            changed = connection.execute(
                change.values(**{first: table.c[first] + wrong.by_ns}, **later)
            )
            count += changed.rowcount
        waiting_ns = min(wrong.until_ns + _LONGEST_WAIT_NS, 1 << 62)
        parts = ((_READ, wrong.until_ns), (_PENDING, waiting_ns))
        for tables, until_ns in parts:
            for table, names in tables:
                hit = or_(*(is_wrong(table.c[name], until_ns) for name in names))
                change = update(table).where(hit).values(**moved(table, names, until_ns))
                count += connection.execute(change).rowcount
    expected = read_state(catalog, EXPECTED_JOBS) or {}
    redated = {
        job: [digest, since + wrong.by_ns if wrong.since_ns <= since <= wrong.until_ns else since]
        for job, (digest, since) in expected.items()
    }
    if redated != expected:
        write_state(catalog, EXPECTED_JOBS, redated)
    return count
