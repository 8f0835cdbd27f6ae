"""Runs and their logs in the catalog."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, get_args

from sqlalchemy import Column, ColumnElement, Connection, and_, func, insert, or_, select, update

from strongroom.base import clock
from strongroom.base.errors import ConflictError, UnknownNameError
from strongroom.director.catalog.database import Catalog, Changed, note_stale
from strongroom.director.catalog.storable import plain, plain_columns
from strongroom.director.catalog.tables import RUN_LOG, RUNS
from strongroom.director.results.runs import (
    FINAL_STATES,
    UNFINISHED_STATES,
    LogLine,
    Run,
    RunFilter,
    RunKind,
)

SHORTEST_BEGINNING = 4
RUN_ID_DIGITS = 32
# A limit, so that an agent's endless log does not fill the director's disk.
MOST_LOG_LINES = 100_000
LONGEST_LINE_CHARACTERS = 4096
# The steps after the end of a run, in this order.
AFTERMATH = ("scripts", "attempt", "rest")


class NewLine(NamedTuple):
    """A line to append to a log."""

    time_ns: int
    level: str
    text: str


def new_run_id() -> str:
    """The id for a new run."""
    return clock.random_bytes(16).hex()


def add_run(catalog: Catalog, record: Run, lines: Sequence[NewLine] = ()) -> Run:
    """Add a new run; returns its record as stored.

    Another attempt of a failed run is added once: ConflictError when that has one already.
    """
    columns = plain_columns({one.name: getattr(record, one.name) for one in RUNS.columns})
    columns["log_lines"] = min(len(lines), MOST_LOG_LINES)
    record = Run(**columns)
    with catalog.writing() as connection:
        if record.rescheduled_from:
            failed = and_(RUNS.c.id == record.rescheduled_from, RUNS.c.aftermath.in_(AFTERMATH[:2]))
            moved = update(RUNS).where(failed).values(aftermath=AFTERMATH[2])
            if not connection.execute(moved).rowcount:
                there = connection.execute(select(RUNS).where(RUNS.c.id == record.id)).one_or_none()
                if there is not None:  # added by us, but the answer was lost
                    return run_of_row(there)
                raise ConflictError(f"run {record.rescheduled_from} was tried again before")
        connection.execute(insert(RUNS), [columns])
        note_stale(connection, Changed(record.job, record.client))
        _append(connection, record.id, 0, lines)
    return record


def change_run(
    catalog: Catalog,
    run_id: str,
    changes: Mapping[str, Any],
    lines: Sequence[NewLine] = (),
    *,
    only_in: Collection[str] = (),
) -> tuple[Run, list[LogLine]]:
    """Change columns of a run and append to its log, atomically; the run and lines as stored.

    ConflictError when its state is not in `only_in`, if that is given; UnknownNameError.
    """
    with catalog.writing() as connection:
        wanted = select(RUNS).where(RUNS.c.id == run_id).with_for_update()
        row = connection.execute(wanted).one_or_none()
        if row is None:
            raise UnknownNameError(f"there is no run {run_id}")
        before = run_of_row(row)
        if only_in and before.state not in only_in:
            raise ConflictError(f"run {run_id} is {before.state}")
        count = _append(connection, run_id, before.log_lines, lines)
        changed = {name: plain(value) for name, value in changes.items()}
        if count != before.log_lines:
            changed["log_lines"] = count
        if changed:
            connection.execute(update(RUNS).where(RUNS.c.id == run_id).values(**changed))
        record = replace(before, **changed)
        # Counts of a run that has not ended are no figures of its job.
        if record.is_final or record.state != before.state:
            note_stale(connection, Changed(record.job, record.client))
        first = before.log_lines + 1
        added = lines[: count - before.log_lines]
        return record, [
            LogLine(number, *_bounded(line)) for number, line in enumerate(added, first)
        ]


def load_run(catalog: Catalog, beginning: str) -> Run:
    """The run of this id, or of a unique prefix of it; UnknownNameError, ConflictError."""
    is_id = len(beginning) >= SHORTEST_BEGINNING and all(c in "0123456789abcdef" for c in beginning)
    if not is_id:
        raise UnknownNameError(
            f"{beginning!r} is not a run id: at least {SHORTEST_BEGINNING} hexadecimal digits"
        )
    # A range uses the index of the primary key, which LIKE does not on every database.
    wanted = and_(RUNS.c.id >= beginning, RUNS.c.id < beginning + "g")
    rows = list(catalog.rows(select(RUNS).where(wanted).limit(2)))
    if not rows:
        raise UnknownNameError(f"there is no run {beginning}")
    if len(rows) > 1:
        raise ConflictError(f"several runs begin with {beginning}; type more of the id")
    return run_of_row(rows[0])


def is_run_id(text: str) -> bool:
    """Whether it looks like a whole id."""
    return len(text) == RUN_ID_DIGITS and all(c in "0123456789abcdef" for c in text)


def known_run(catalog: Catalog, run_id: str) -> Run | None:
    """The run of this whole id; None where there is none, or it is no id."""
    rows = catalog.rows(select(RUNS).where(RUNS.c.id == run_id)) if is_run_id(run_id) else ()
    return next(map(run_of_row, rows), None)


def find_runs(catalog: Catalog, wanted: RunFilter) -> list[Run]:
    """Runs that fit, the newest first."""
    conditions: list[ColumnElement[bool]] = []
    for column, value in (("job", wanted.job), ("client", wanted.client), ("kind", wanted.kind)):
        if value:
            conditions.append(RUNS.c[column] == value)
    if wanted.states:
        conditions.append(_is_in(wanted.states))
    if wanted.of_clients is not None:
        conditions.append(RUNS.c.client.in_(wanted.of_clients))
    if wanted.of_jobs is not None:
        conditions.append(or_(RUNS.c.job.in_(wanted.of_jobs), RUNS.c.kind == "restore"))
    if wanted.after_ns:
        conditions.append(RUNS.c.scheduled_ns >= wanted.after_ns)
    if wanted.before_ns:
        conditions.append(RUNS.c.scheduled_ns < wanted.before_ns)
    query = (
        select(RUNS)
        .where(*conditions)
        .order_by(RUNS.c.scheduled_ns.desc(), RUNS.c.id)
        .limit(wanted.limit)
        .offset(wanted.offset)
    )
    return [run_of_row(row) for row in catalog.rows(query)]


def _is_in(states: Collection[str]) -> ColumnElement[bool]:
    """The condition that a run is in one of these states.

    Most runs ended, most of them well: SQLite would find them all by the index of states, and sort
    them, where the newest are wanted.
    """
    if set(states) >= FINAL_STATES:
        return RUNS.c.state.not_in(tuple(UNFINISHED_STATES - set(states)))
    column = RUNS.c.state.concat("") if "done" in states else RUNS.c.state
    return column.in_(states)


def unfinished_runs(catalog: Catalog) -> list[Run]:
    """Every run that has not ended, the oldest first."""
    query = select(RUNS).where(RUNS.c.state.not_in(FINAL_STATES)).order_by(RUNS.c.queued_ns)
    return [run_of_row(row) for row in catalog.rows(query)]


def unfollowed_runs(catalog: Catalog) -> list[Run]:
    """Every ended run whose aftermath is not complete; the oldest first."""
    query = (
        select(RUNS)
        .where(RUNS.c.state.in_(FINAL_STATES), RUNS.c.aftermath != "")
        .order_by(RUNS.c.ended_ns)
    )
    return [run_of_row(row) for row in catalog.rows(query)]


def last_runs(catalog: Catalog, jobs: Collection[str] | None = None) -> dict[str, Run]:
    """The newest run of each job, or of each of some."""
    newest = (
        select(RUNS.c.job, func.max(RUNS.c.scheduled_ns).label("newest_ns"))
        .where(*among(RUNS.c.job, jobs))
        .group_by(RUNS.c.job)
        .subquery()
    )
    query = select(RUNS).join(
        newest, and_(RUNS.c.job == newest.c.job, RUNS.c.scheduled_ns == newest.c.newest_ns)
    )
    return {row.job: run_of_row(row) for row in catalog.rows(query)}


def last_ends(
    catalog: Catalog, kind: str = "backup", level: str = "", jobs: Collection[str] | None = None
) -> list[Run]:
    """The newest ended run of a kind for each job and client, and the newest successful one.

    level: only runs of it, "" for those of any. jobs: of some only.
    """
    found: dict[str, Run] = {}
    fitting = [RUNS.c.kind == kind, *among(RUNS.c.job, jobs)]
    if level:
        fitting.append(RUNS.c.level == level)
    for states in (("done", "incomplete"), tuple(sorted(FINAL_STATES))):
        of = (RUNS.c.kind, RUNS.c.job, RUNS.c.client)
        newest = (
            select(*of, func.max(RUNS.c.ended_ns).label("newest_ns"))
            .where(*fitting, RUNS.c.state.in_(states))
            .group_by(*of)
            .subquery()
        )
        same = and_(
            *(one == newest.c[one.name] for one in of),
            RUNS.c.ended_ns == newest.c.newest_ns,
            # Not to be searched by its index: SQLite would read all runs, and the newest of each.
            RUNS.c.state.concat("").in_(states),
        )
        if level:
            same = and_(same, RUNS.c.level == level)
        rows = catalog.rows(select(RUNS).join(newest, same))
        found.update((row.id, run_of_row(row)) for row in rows)
    return sorted(found.values(), key=lambda record: record.ended_ns)


def counts_by_state(
    catalog: Catalog, jobs: Collection[str] | None = None
) -> dict[tuple[str, str, str, str], int]:
    """How many runs there are by job, client, kind and state, of all time; of some jobs only."""
    columns = (RUNS.c.job, RUNS.c.client, RUNS.c.kind, RUNS.c.state)
    # In the order of ix_runs_ends, which holds all of it.
    in_order = (RUNS.c.kind, RUNS.c.job, RUNS.c.client, RUNS.c.state)
    conditions = among(RUNS.c.job, jobs)
    if jobs is not None:
        # Without its first column the index would not be searched.
        conditions.append(RUNS.c.kind.in_(get_args(RunKind)))
    query = select(*columns, func.count()).where(*conditions).group_by(*in_order)
    return {
        (job, client, kind, state): count for job, client, kind, state, count in catalog.rows(query)
    }


def among(column: Column[str], names: Collection[str] | None) -> list[ColumnElement[bool]]:
    """The condition that a column has one of these values; none for None."""
    return [] if names is None else [column.in_(names)]


def last_failed_level(catalog: Catalog, job: str, client: str, since_ns: int) -> str:
    """The highest level of backups of a job that failed since then: full, differential or ""."""
    query = select(RUNS.c.level).where(
        RUNS.c.job == job,
        RUNS.c.client == client,
        RUNS.c.kind == "backup",
        RUNS.c.state == "failed",
        RUNS.c.scheduled_ns > since_ns,
    )
    with catalog.reading() as connection:
        levels = set(connection.execute(query).scalars())
    return next((level for level in ("full", "differential") if level in levels), "")


def log_lines(catalog: Catalog, run_id: str, after: int = 0, limit: int = 1000) -> list[LogLine]:
    """Lines of a run's log above `after`, in order."""
    query = (
        select(RUN_LOG)
        .where(RUN_LOG.c.run_id == run_id, RUN_LOG.c.sequence > after)
        .order_by(RUN_LOG.c.sequence)
        .limit(limit)
    )
    return [LogLine(row.sequence, row.time_ns, row.level, row.text) for row in catalog.rows(query)]


def _append(connection: Connection, run_id: str, count: int, lines: Sequence[NewLine]) -> int:
    room = max(0, MOST_LOG_LINES - count)
    rows = [
        {"run_id": run_id, "sequence": number, "time_ns": time_ns, "level": level, "text": text}
        for number, (time_ns, level, text) in enumerate(map(_bounded, lines[:room]), count + 1)
    ]
    if rows:
        connection.execute(insert(RUN_LOG), rows)
    return count + len(rows)


def _bounded(line: NewLine) -> tuple[int, str, str]:
    text: str = plain(line.text)
    return line.time_ns, line.level, text[:LONGEST_LINE_CHARACTERS]


def run_of_row(row: Any) -> Run:
    """The run in a row of the table, or in some columns of it."""
    return Run(**row._mapping)  # noqa: SLF001 - SQLAlchemy's API for columns of a row
