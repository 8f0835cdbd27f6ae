"""Runs and their logs in the catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from sqlalchemy import and_, func, insert, or_, select, update

from strongroom import clock
from strongroom.daemons.director.catalog.storable_text import plain, plain_columns
from strongroom.daemons.director.catalog.tables import RUN_LOG, RUNS
from strongroom.daemons.director.results.runs import FINAL_STATES, LogLine, Run
from strongroom.errors import ConflictError, UnknownNameError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from sqlalchemy import ColumnElement, Connection

    from strongroom.daemons.director.catalog.database import Catalog
    from strongroom.daemons.director.results.runs import RunFilter

SHORTEST_BEGINNING = 4
# A limit, so that an agent's endless log does not fill the director's disk.
MOST_LOG_LINES = 100_000
LONGEST_LINE_CHARACTERS = 4096
# The steps after the end of a run, in this order.
AFTERMATH = ("scripts", "attempt", "rest")


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A run with everything that the catalog has about it; see Run.

    queued_ns: when it was requested. not_before_ns: rescheduled for then. deadline_ns: when it is
    ended at the latest, 0 for never. sequence: of the agent's last report that is stored. request:
    other options, specific to its kind. aftermath: the step of AFTERMATH that is done next, ""
    when all are done. given_up_ns: when the director ended it without its agent, 0 if it did not.
    source_client: of a restore, whose snapshot it reads.
    """

    id: str
    job: str
    client: str = ""
    fileset: str = ""
    storage: str = ""
    pool: str = ""
    level: str = ""
    kind: str
    state: str = "queued"
    priority: int = 10
    scheduled_ns: int = 0
    queued_ns: int = 0
    not_before_ns: int = 0
    deadline_ns: int = 0
    started_ns: int = 0
    ended_ns: int = 0
    files: int = 0
    bytes: int = 0
    stored_bytes: int = 0
    errors: int = 0
    snapshot: str = ""
    parent: str = ""
    fileset_digest: str = ""
    error_id: str = ""
    error: str = ""
    reason: str = ""
    requested_by: str = ""
    attempt: int = 1
    rescheduled_from: str = ""
    sequence: int = 0
    log_lines: int = 0
    aftermath: str = ""
    given_up_ns: int = 0
    source_client: str = ""
    request: dict[str, Any] = {}
    summary: dict[str, Any] = {}
    security: dict[str, Any] = {}

    @property
    def is_final(self) -> bool:
        """Whether it has ended."""
        return self.state in FINAL_STATES

    @property
    def went_well(self) -> bool:
        """Whether it succeeded; a few files that could not be read are no failure."""
        return self.state in ("done", "incomplete")

    def info(self) -> Run:
        """The run as the director's results show it."""
        fields = {name: getattr(self, name) for name in _INFO_FIELDS}
        return Run(**fields, is_concluded=self.is_final and not self.aftermath)


_INFO_FIELDS = tuple(set(Run.__slots__) & set(RunRecord.__struct_fields__))


class NewLine(NamedTuple):
    """A line to append to a log."""

    time_ns: int
    level: str
    text: str


def new_run_id() -> str:
    """The id for a new run."""
    return clock.random_bytes(16).hex()


def add_run(catalog: Catalog, record: RunRecord, lines: Sequence[NewLine] = ()) -> RunRecord:
    """Add a new run; returns its record as stored.

    Another attempt of a failed run is added once: ConflictError when that has one already.
    """
    columns = plain_columns(msgspec.structs.asdict(record))
    record = RunRecord(**{**columns, "log_lines": min(len(lines), MOST_LOG_LINES)})
    with catalog.writing() as connection:
        if record.rescheduled_from:
            failed = and_(RUNS.c.id == record.rescheduled_from, RUNS.c.aftermath.in_(AFTERMATH[:2]))
            moved = update(RUNS).where(failed).values(aftermath=AFTERMATH[2])
            if not connection.execute(moved).rowcount:
                there = connection.execute(select(RUNS).where(RUNS.c.id == record.id)).one_or_none()
                if there is not None:  # added by us, but the answer was lost
                    return _record(there)
                raise ConflictError(f"run {record.rescheduled_from} was tried again before")
        connection.execute(insert(RUNS), [msgspec.structs.asdict(record)])
        _append(connection, record.id, 0, lines)
    return record


def change_run(
    catalog: Catalog,
    run_id: str,
    changes: Mapping[str, Any],
    lines: Sequence[NewLine] = (),
    *,
    only_in: Collection[str] = (),
) -> tuple[RunRecord, list[LogLine]]:
    """Change columns of a run and append to its log, atomically; the run and lines as stored.

    ConflictError when its state is not in `only_in`, if that is given; UnknownNameError.
    """
    with catalog.writing() as connection:
        wanted = select(RUNS).where(RUNS.c.id == run_id).with_for_update()
        row = connection.execute(wanted).one_or_none()
        if row is None:
            raise UnknownNameError(f"there is no run {run_id}")
        before = _record(row)
        if only_in and before.state not in only_in:
            raise ConflictError(f"run {run_id} is {before.state}")
        count = _append(connection, run_id, before.log_lines, lines)
        changed = {name: plain(value) for name, value in changes.items()}
        if count != before.log_lines:
            changed["log_lines"] = count
        if changed:
            connection.execute(update(RUNS).where(RUNS.c.id == run_id).values(**changed))
        record = msgspec.structs.replace(before, **changed)
        first = before.log_lines + 1
        added = lines[: count - before.log_lines]
        return record, [
            LogLine(number, *_bounded(line)) for number, line in enumerate(added, first)
        ]


def load_run(catalog: Catalog, beginning: str) -> RunRecord:
    """The run of this id, or of a unique prefix of it; UnknownNameError, ConflictError."""
    is_id = len(beginning) >= SHORTEST_BEGINNING and all(c in "0123456789abcdef" for c in beginning)
    if not is_id:
        raise UnknownNameError(
            f"{beginning!r} is not a run id: at least {SHORTEST_BEGINNING} hexadecimal digits"
        )
    with catalog.reading() as connection:
        # A range uses the index of the primary key, which LIKE does not on every database.
        wanted = and_(RUNS.c.id >= beginning, RUNS.c.id < beginning + "g")
        rows = connection.execute(select(RUNS).where(wanted).limit(2)).all()
    if not rows:
        raise UnknownNameError(f"there is no run {beginning}")
    if len(rows) > 1:
        raise ConflictError(f"several runs begin with {beginning}; give more of the id")
    return _record(rows[0])


def find_runs(catalog: Catalog, wanted: RunFilter) -> list[RunRecord]:
    """Runs that fit, the newest first."""
    conditions: list[ColumnElement[bool]] = []
    for column, value in (("job", wanted.job), ("client", wanted.client), ("kind", wanted.kind)):
        if value:
            conditions.append(RUNS.c[column] == value)
    if wanted.states:
        conditions.append(RUNS.c.state.in_(wanted.states))
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
    with catalog.reading() as connection:
        return [_record(row) for row in connection.execute(query)]


def unfinished_runs(catalog: Catalog) -> list[RunRecord]:
    """Every run that has not ended, the oldest first."""
    query = select(RUNS).where(RUNS.c.state.not_in(FINAL_STATES)).order_by(RUNS.c.queued_ns)
    with catalog.reading() as connection:
        return [_record(row) for row in connection.execute(query)]


def unfollowed_runs(catalog: Catalog) -> list[RunRecord]:
    """Every ended run whose aftermath is not complete; the oldest first."""
    query = (
        select(RUNS)
        .where(RUNS.c.state.in_(FINAL_STATES), RUNS.c.aftermath != "")
        .order_by(RUNS.c.ended_ns)
    )
    with catalog.reading() as connection:
        return [_record(row) for row in connection.execute(query)]


def last_runs(catalog: Catalog) -> dict[str, RunRecord]:
    """The newest run of each job."""
    newest = (
        select(RUNS.c.job, func.max(RUNS.c.scheduled_ns).label("newest_ns"))
        .group_by(RUNS.c.job)
        .subquery()
    )
    query = select(RUNS).join(
        newest, and_(RUNS.c.job == newest.c.job, RUNS.c.scheduled_ns == newest.c.newest_ns)
    )
    with catalog.reading() as connection:
        return {row.job: _record(row) for row in connection.execute(query)}


def last_ends(catalog: Catalog, kind: str = "backup", level: str = "") -> list[RunRecord]:
    """The newest ended run of a kind for each job and client, and the newest successful one.

    level: only runs of it, "" for those of any.
    """
    found: dict[str, RunRecord] = {}
    fitting = [RUNS.c.kind == kind, *([RUNS.c.level == level] if level else [])]
    with catalog.reading() as connection:
        for states in (("done", "incomplete"), tuple(sorted(FINAL_STATES))):
            newest = (
                select(RUNS.c.job, RUNS.c.client, func.max(RUNS.c.ended_ns).label("newest_ns"))
                .where(*fitting, RUNS.c.state.in_(states))
                .group_by(RUNS.c.job, RUNS.c.client)
                .subquery()
            )
            same = and_(
                RUNS.c.job == newest.c.job,
                RUNS.c.client == newest.c.client,
                RUNS.c.ended_ns == newest.c.newest_ns,
            )
            rows = connection.execute(
                select(RUNS).join(newest, same).where(*fitting, RUNS.c.state.in_(states))
            )
            found.update((row.id, _record(row)) for row in rows)
    return sorted(found.values(), key=lambda record: record.ended_ns)


def counts_by_state(catalog: Catalog) -> dict[tuple[str, str, str, str], int]:
    """How many runs there are by job, client, kind and state, of all time."""
    columns = (RUNS.c.job, RUNS.c.client, RUNS.c.kind, RUNS.c.state)
    query = select(*columns, func.count()).group_by(*columns)
    with catalog.reading() as connection:
        return {
            (job, client, kind, state): count
            for job, client, kind, state, count in connection.execute(query)
        }


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
    with catalog.reading() as connection:
        return [
            LogLine(row.sequence, row.time_ns, row.level, row.text)
            for row in connection.execute(query)
        ]


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


def _record(row: Any) -> RunRecord:
    return RunRecord(**row._mapping)  # noqa: SLF001 - SQLAlchemy's API for columns of a row
