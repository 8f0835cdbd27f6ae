"""Snapshots in the catalog: those in the repositories, and those removed from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from sqlalchemy import (
    Float,
    and_,
    case,
    cast,
    exists,
    func,
    insert,
    not_,
    or_,
    select,
    text,
    update,
)

from strongroom import clock
from strongroom.daemons.director.catalog.storable_text import plain_columns, plain_tags
from strongroom.daemons.director.catalog.tables import GONE, IS_FALSE, IS_GONE, RUNS, SNAPSHOTS
from strongroom.errors import SnapshotNotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sqlalchemy import Column, ColumnElement, Connection

    from strongroom.daemons.director.catalog.database import Catalog
    from strongroom.daemons.director.results.snapshots import SnapshotFilter

SHORTEST_BEGINNING = 4
# How many values databases accept in one statement.
_BATCH = 1000
# The reason of removal where nobody removed it here.
# SnapshotRecord.begun_ns
_BEGUN_NS = case(
    (
        and_(SNAPSHOTS.c.server_ns != 0, SNAPSHOTS.c.server_ns < SNAPSHOTS.c.start_ns),
        SNAPSHOTS.c.server_ns,
    ),
    else_=SNAPSHOTS.c.start_ns,
)


class SnapshotRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot; see Snapshot. original: what it is a copy of (jobs.copy.identity), or "".

    false_reason: what is wrong with it; then it counts for nothing.
    """

    id: str
    client: str
    job: str = ""
    fileset: str = ""
    fileset_digest: str = ""
    storage: str = ""
    pool: str = ""
    level: str = "full"
    run: str = ""
    original: str = ""
    start_ns: int = 0
    server_ns: int = 0
    files: int = 0
    bytes: int = 0
    stored_bytes: int = 0
    errors: int = 0
    missing_paths: int = 0
    tags: tuple[str, ...] = ()
    removed_ns: int = 0
    removed_reason: str = ""
    false_reason: str = ""

    @property
    def begun_ns(self) -> int:
        """When it began, but not later than the store received it."""
        return min(self.start_ns, self.server_ns) if self.server_ns else self.start_ns


# How many snapshots say what is usual.
_USUAL = 5


class KnownSnapshot(NamedTuple):
    """The part of a snapshot needed to tell whether it exists."""

    storage: str
    client: str
    job: str
    removed_ns: int
    removed_reason: str
    false_reason: str


def add_snapshots(catalog: Catalog, records: Iterable[SnapshotRecord]) -> int:
    """Add snapshots; existing ones stay unchanged. Returns how many were new."""
    with catalog.writing() as connection:
        return insert_snapshots(connection, records)


def insert_snapshots(connection: Connection, records: Iterable[SnapshotRecord]) -> int:
    """The same within a transaction."""
    wanted = {record.id: record for record in records}
    there = set(
        connection.execute(select(SNAPSHOTS.c.id).where(SNAPSHOTS.c.id.in_(list(wanted)))).scalars()
    )
    rows = [_row(record) for record in wanted.values() if record.id not in there]
    if rows:
        connection.execute(insert(SNAPSHOTS), rows)
    return len(rows)


def load_snapshot(catalog: Catalog, beginning: str) -> SnapshotRecord:
    """The snapshot of this id, or of a unique prefix of it. Raises SnapshotNotFoundError."""
    is_id = len(beginning) >= SHORTEST_BEGINNING and all(c in "0123456789abcdef" for c in beginning)
    if not is_id:
        raise SnapshotNotFoundError(
            f"{beginning!r} is not a snapshot id: at least {SHORTEST_BEGINNING} hexadecimal digits "
            "are needed"
        )
    wanted = and_(SNAPSHOTS.c.id >= beginning, SNAPSHOTS.c.id < beginning + "g")
    with catalog.reading() as connection:
        rows = connection.execute(select(SNAPSHOTS).where(wanted).limit(2)).all()
    if len(rows) != 1:
        what = "several snapshots begin" if rows else "no snapshot begins"
        raise SnapshotNotFoundError(f"{what} with {beginning}")
    return _record(rows[0])


def find_snapshots(catalog: Catalog, wanted: SnapshotFilter) -> list[SnapshotRecord]:
    """Snapshots that fit, the newest first by when they began, each before its copies."""
    conditions: list[ColumnElement[bool]] = [
        SNAPSHOTS.c[column] == value
        for column in ("client", "job", "fileset", "pool")
        if (value := getattr(wanted, column)) or wanted.exactly
    ]
    if wanted.of_clients is not None:
        conditions.append(SNAPSHOTS.c.client.in_(wanted.of_clients))
    if wanted.of_jobs is not None:
        conditions.append(SNAPSHOTS.c.job.in_(wanted.of_jobs))
    if wanted.after_ns:
        conditions.append(SNAPSHOTS.c.start_ns >= wanted.after_ns)
    if wanted.before_ns:
        conditions.append(SNAPSHOTS.c.start_ns < wanted.before_ns)
    if not wanted.with_removed:
        conditions.append(SNAPSHOTS.c.removed_ns == 0)
    if not wanted.with_false:
        conditions.append(SNAPSHOTS.c.false_reason == "")
    if not wanted.with_copies:
        originals = SNAPSHOTS.alias("originals")
        original_is_there = exists().where(
            originals.c.id == SNAPSHOTS.c.original, originals.c.removed_ns == 0
        )
        conditions.append(not_(original_is_there))
    query = (
        select(SNAPSHOTS)
        .where(*conditions)
        .order_by(
            _BEGUN_NS.desc(),
            case((SNAPSHOTS.c.original == "", 0), else_=1),
            SNAPSHOTS.c.server_ns.desc(),
            SNAPSHOTS.c.id,
        )
        .limit(wanted.limit)
        .offset(wanted.offset)
    )
    with catalog.reading() as connection:
        return [_record(row) for row in connection.execute(query)]


def newest_snapshot(
    catalog: Catalog,
    *,
    job: str,
    client: str,
    storage: str = "",
    levels: Iterable[str] = (),
    digest: str = "",
    with_removed: bool = False,
    whole: bool = False,
) -> SnapshotRecord | None:
    """The newest existing one of a job and client, by the server's clock; no copy, no false one.

    digest: of the FileSet; snapshots with an unknown digest match as well. whole: only those that
    hold what they were to hold.
    """
    conditions = _originals(job, client, storage, digest)
    if not with_removed:
        conditions.append(SNAPSHOTS.c.removed_ns == 0)
    if whole:
        conditions.append(SNAPSHOTS.c.missing_paths == 0)
    if wanted := tuple(levels):
        conditions.append(SNAPSHOTS.c.level.in_(wanted))
    return _first(catalog, conditions, SNAPSHOTS.c.server_ns.desc())


def oldest_snapshot(
    catalog: Catalog, *, job: str, client: str, storage: str, digest: str, since_ns: int
) -> SnapshotRecord | None:
    """The oldest existing one received then or later; otherwise as newest_snapshot."""
    conditions = _originals(job, client, storage, digest)
    conditions += [SNAPSHOTS.c.removed_ns == 0, SNAPSHOTS.c.server_ns >= since_ns]
    return _first(catalog, conditions, SNAPSHOTS.c.server_ns)


def usual_snapshots(catalog: Catalog, record: SnapshotRecord) -> list[SnapshotRecord]:
    """The last ones of its job before it that held what they were to hold, the newest first.

    Of its FileSet as it is now, where the record knows that; removed ones, too.
    """
    conditions = [
        *_originals(record.job, record.client, record.storage, record.fileset_digest),
        SNAPSHOTS.c.missing_paths == 0,
        SNAPSHOTS.c.id != record.id,
    ]
    query = select(SNAPSHOTS).where(*conditions).order_by(SNAPSHOTS.c.server_ns.desc())
    with catalog.reading() as connection:
        rows = connection.execute(query.limit(_USUAL))
        return [_record(row) for row in rows]


def note_accepted(catalog: Catalog, snapshot_id: str, missing_paths: int) -> None:
    """A snapshot and its copies lack so many named paths, by an operator's judgement."""
    is_same = or_(SNAPSHOTS.c.id == snapshot_id, SNAPSHOTS.c.original == snapshot_id)
    with catalog.writing() as connection:
        chosen = update(SNAPSHOTS).where(is_same)
        connection.execute(chosen.values(missing_paths=missing_paths))


def present_snapshots(
    catalog: Catalog, *, pool: str = "", job: str = "", client: str = "", storage: str = ""
) -> list[SnapshotRecord]:
    """All existing ones that match, the oldest first, without false ones."""
    conditions: list[ColumnElement[bool]] = [
        SNAPSHOTS.c.removed_ns == 0,
        SNAPSHOTS.c.false_reason == "",
    ]
    named = (("pool", pool), ("job", job), ("client", client), ("storage", storage))
    conditions += [SNAPSHOTS.c[column] == value for column, value in named if value]
    query = select(SNAPSHOTS).where(*conditions).order_by(SNAPSHOTS.c.server_ns, SNAPSHOTS.c.id)
    with catalog.reading() as connection:
        return [_record(row) for row in connection.execute(query)]


def counting_snapshots(catalog: Catalog, records: Sequence[SnapshotRecord]) -> frozenset[str]:
    """Ids of those that rules of retention count: copies, and one of each run that went well.

    Of a run that is not known, or names none of them, the first that was stored.
    """
    runs: dict[str, tuple[str, str]] = {}
    wanted = sorted({record.run for record in records if record.run})
    with catalog.reading() as connection:
        for start in range(0, len(wanted), _BATCH):
            columns = select(RUNS.c.id, RUNS.c.state, RUNS.c.snapshot)
            found = connection.execute(columns.where(RUNS.c.id.in_(wanted[start : start + _BATCH])))
            runs |= {run_id: (state, snapshot) for run_id, state, snapshot in found}
    there = {record.id for record in records}
    first: dict[str, str] = {}
    for record in sorted(records, key=lambda one: (one.server_ns, one.id)):
        state, snapshot = runs.get(record.run, ("done", ""))
        if not record.run or record.original:
            first[record.id] = record.id
        elif state in ("done", "incomplete"):
            first.setdefault(record.run, snapshot if snapshot in there else record.id)
    return frozenset(first.values())


def known_snapshots(catalog: Catalog) -> dict[str, KnownSnapshot]:
    """All by their ids, removed ones too."""
    columns = [SNAPSHOTS.c[name] for name in ("id", *KnownSnapshot._fields)]
    with catalog.reading() as connection:
        return {name: KnownSnapshot(*rest) for name, *rest in connection.execute(select(*columns))}


def stored_since(catalog: Catalog, since_ns: int) -> dict[str, tuple[int, int]]:
    """Storage -> when the first snapshot since then was stored, and what all of them added."""
    query = (
        select(
            SNAPSHOTS.c.storage,
            func.min(SNAPSHOTS.c.server_ns),
            func.sum(SNAPSHOTS.c.stored_bytes),
        )
        .where(SNAPSHOTS.c.server_ns >= since_ns)
        .group_by(SNAPSHOTS.c.storage)
    )
    with catalog.reading() as connection:
        return {storage: (first, int(size)) for storage, first, size in connection.execute(query)}


def note_removed(catalog: Catalog, ids: Iterable[str], removed_ns: int, reason: str) -> None:
    """Mark snapshots as removed, with the reason; also those that were only found to be gone."""
    with catalog.writing() as connection:
        connection.execute(
            update(SNAPSHOTS)
            .where(
                SNAPSHOTS.c.id.in_(list(ids)),
                or_(SNAPSHOTS.c.removed_ns == 0, SNAPSHOTS.c.removed_reason == GONE),
            )
            .values(removed_ns=removed_ns, removed_reason=reason)
        )


def note_returned(catalog: Catalog, ids: Iterable[str], reason: str) -> None:
    """Unmark snapshots that were marked as removed for that reason."""
    with catalog.writing() as connection:
        connection.execute(
            update(SNAPSHOTS)
            .where(SNAPSHOTS.c.id.in_(list(ids)), SNAPSHOTS.c.removed_reason == reason)
            .values(removed_ns=0, removed_reason="")
        )


def note_false(catalog: Catalog, reasons: Mapping[str, str]) -> None:
    """Note what is wrong with snapshots, "" for nothing."""
    with catalog.writing() as connection:
        for name, reason in reasons.items():
            text = plain_columns({"false_reason": reason})
            connection.execute(update(SNAPSHOTS).where(SNAPSHOTS.c.id == name).values(text))


def false_snapshots(catalog: Catalog) -> list[SnapshotRecord]:
    """Existing ones that were found false, the newest first."""
    conditions: list[Any] = [SNAPSHOTS.c.removed_ns == 0, text(IS_FALSE)]
    query = select(SNAPSHOTS).where(*conditions).order_by(SNAPSHOTS.c.server_ns.desc())
    with catalog.reading() as connection:
        return [_record(row) for row in connection.execute(query)]


def missed_snapshots(catalog: Catalog) -> list[SnapshotRecord]:
    """The newest of a client and job in a storage, where it is gone and none newer is there.

    Nobody removed it here: somebody did elsewhere, or the store was set back.
    """
    newer = SNAPSHOTS.alias("newer")
    is_of_same = [
        newer.c[name] == SNAPSHOTS.c[name] for name in ("client", "job", "storage", "original")
    ]
    newer_is_there = exists().where(
        *is_of_same,
        newer.c.false_reason == "",
        newer.c.server_ns > SNAPSHOTS.c.server_ns,
        or_(newer.c.removed_ns == 0, newer.c.removed_reason == GONE),
    )
    conditions: list[Any] = [
        SNAPSHOTS.c.removed_ns != 0,
        text(f"snapshots.{IS_GONE}"),
        SNAPSHOTS.c.false_reason == "",
        SNAPSHOTS.c.original == "",
        not_(newer_is_there),
    ]
    query = select(SNAPSHOTS).where(*conditions).order_by(SNAPSHOTS.c.server_ns.desc())
    with catalog.reading() as connection:
        return [_record(row) for row in connection.execute(query)]


def missed_text(record: SnapshotRecord) -> str:
    """What a missed snapshot means, for warnings and errors."""
    return (
        f"storage {record.storage} does not show snapshot {record.id[:8]} of {record.client} "
        f"({clock.utc_text(record.server_ns)}), the newest known of job {record.job}, nor a newer "
        "one: somebody removed it there, or the store shows an earlier state"
    )


def totals_by_client(catalog: Catalog) -> dict[str, tuple[int, int]]:
    """Client -> how many snapshots exist, and the bytes they stored."""
    query = (
        select(SNAPSHOTS.c.client, func.count(), _total(SNAPSHOTS.c.stored_bytes))
        .where(SNAPSHOTS.c.removed_ns == 0)
        .group_by(SNAPSHOTS.c.client)
    )
    with catalog.reading() as connection:
        return {name: (count, int(size or 0)) for name, count, size in connection.execute(query)}


def _originals(job: str, client: str, storage: str, digest: str) -> list[ColumnElement[bool]]:
    conditions = [
        SNAPSHOTS.c.job == job,
        SNAPSHOTS.c.client == client,
        SNAPSHOTS.c.original == "",
        SNAPSHOTS.c.false_reason == "",
    ]
    if storage:
        conditions.append(SNAPSHOTS.c.storage == storage)
    if digest:
        conditions.append(SNAPSHOTS.c.fileset_digest.in_((digest, "")))
    return conditions


def _first(
    catalog: Catalog, conditions: list[ColumnElement[bool]], order: ColumnElement[int]
) -> SnapshotRecord | None:
    query = select(SNAPSHOTS).where(*conditions).order_by(order, SNAPSHOTS.c.id).limit(1)
    with catalog.reading() as connection:
        row = connection.execute(query).one_or_none()
    return None if row is None else _record(row)


def _total(column: Column[int]) -> ColumnElement[float]:
    """The sum of a column, exact up to 8 PiB.

    Counts come from agents, and an integer overflow fails the whole query on SQLite.
    """
    return func.sum(cast(column, Float(53)))


def bytes_by_storage(catalog: Catalog) -> dict[str, int]:
    """Storage -> bytes of all files of all existing snapshots."""
    query = (
        select(SNAPSHOTS.c.storage, _total(SNAPSHOTS.c.bytes))
        .where(SNAPSHOTS.c.removed_ns == 0)
        .group_by(SNAPSHOTS.c.storage)
    )
    with catalog.reading() as connection:
        return {name: int(size or 0) for name, size in connection.execute(query)}


def _row(record: SnapshotRecord) -> dict[str, Any]:
    return {**plain_columns(msgspec.structs.asdict(record)), "tags": plain_tags(record.tags)}


def _record(row: Any) -> SnapshotRecord:
    fields = dict(row._mapping)  # noqa: SLF001 - SQLAlchemy's API for columns of a row
    return SnapshotRecord(**{**fields, "tags": tuple(fields["tags"])})
