"""Snapshots in the catalog: those in the repositories, and those removed from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
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

from strongroom.base import clock
from strongroom.base.errors import SnapshotNotFoundError
from strongroom.director.catalog.database import Catalog, Changed, note_stale
from strongroom.director.catalog.runs import among
from strongroom.director.catalog.storable import plain_columns, plain_tags
from strongroom.director.catalog.tables import BEGUN_NS, GONE, IS_FALSE, IS_GONE, RUNS, SNAPSHOTS
from strongroom.director.results.snapshots import Snapshot, SnapshotFilter

SHORTEST_BEGINNING = 4
# How many values databases accept in one statement.
_BATCH = 1000
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


def add_snapshots(catalog: Catalog, records: Iterable[Snapshot]) -> int:
    """Add snapshots; existing ones stay unchanged. Returns how many were new."""
    with catalog.writing() as connection:
        return insert_snapshots(connection, records)


def insert_snapshots(connection: Connection, records: Iterable[Snapshot]) -> int:
    """The same within a transaction."""
    wanted = {record.id: record for record in records}
    there = set(
        connection.execute(select(SNAPSHOTS.c.id).where(SNAPSHOTS.c.id.in_(list(wanted)))).scalars()
    )
    rows = [_row(record) for record in wanted.values() if record.id not in there]
    if rows:
        connection.execute(insert(SNAPSHOTS), rows)
        note_stale(connection, *(Changed(client=row["client"]) for row in rows))
    return len(rows)


def load_snapshot(catalog: Catalog, beginning: str) -> Snapshot:
    """The snapshot of this id, or of a unique prefix of it. Raises SnapshotNotFoundError."""
    is_id = len(beginning) >= SHORTEST_BEGINNING and all(c in "0123456789abcdef" for c in beginning)
    if not is_id:
        raise SnapshotNotFoundError(
            f"{beginning!r} is not a snapshot id: at least {SHORTEST_BEGINNING} hexadecimal digits "
            "are needed"
        )
    wanted = and_(SNAPSHOTS.c.id >= beginning, SNAPSHOTS.c.id < beginning + "g")
    rows = list(catalog.rows(select(SNAPSHOTS).where(wanted).limit(2)))
    if len(rows) != 1:
        what = "several snapshots begin" if rows else "no snapshot begins"
        raise SnapshotNotFoundError(f"{what} with {beginning}")
    return _record(rows[0])


def find_snapshots(catalog: Catalog, wanted: SnapshotFilter) -> list[Snapshot]:
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
            text(f"{BEGUN_NS} DESC"),
            case((SNAPSHOTS.c.original == "", 0), else_=1),
            SNAPSHOTS.c.server_ns.desc(),
            SNAPSHOTS.c.id,
        )
        .limit(wanted.limit)
        .offset(wanted.offset)
    )
    return [_record(row) for row in catalog.rows(query)]


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
) -> Snapshot | None:
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
) -> Snapshot | None:
    """The oldest existing one received then or later; otherwise as newest_snapshot."""
    conditions = _originals(job, client, storage, digest)
    conditions += [SNAPSHOTS.c.removed_ns == 0, SNAPSHOTS.c.server_ns >= since_ns]
    return _first(catalog, conditions, SNAPSHOTS.c.server_ns)


def usual_snapshots(catalog: Catalog, record: Snapshot) -> list[Snapshot]:
    """The last ones of its job before it that held what they were to hold, the newest first.

    Of its FileSet as it is now, where the record knows that; removed ones, too.
    """
    conditions = [
        *_originals(record.job, record.client, record.storage, record.fileset_digest),
        SNAPSHOTS.c.missing_paths == 0,
        SNAPSHOTS.c.id != record.id,
    ]
    query = select(SNAPSHOTS).where(*conditions).order_by(SNAPSHOTS.c.server_ns.desc())
    rows = catalog.rows(query.limit(_USUAL))
    return [_record(row) for row in rows]


def note_accepted(catalog: Catalog, snapshot_id: str, missing_paths: int) -> None:
    """A snapshot and its copies lack so many named paths, by an operator's judgement."""
    is_same = or_(SNAPSHOTS.c.id == snapshot_id, SNAPSHOTS.c.original == snapshot_id)
    chosen = update(SNAPSHOTS).where(is_same)
    catalog.change(chosen.values(missing_paths=missing_paths))


def present_snapshots(
    catalog: Catalog, *, pool: str = "", job: str = "", client: str = "", storage: str = ""
) -> list[Snapshot]:
    """All existing ones that match, the oldest first, without false ones."""
    conditions: list[ColumnElement[bool]] = [
        SNAPSHOTS.c.removed_ns == 0,
        SNAPSHOTS.c.false_reason == "",
    ]
    named = (("pool", pool), ("job", job), ("client", client), ("storage", storage))
    conditions += [SNAPSHOTS.c[column] == value for column, value in named if value]
    return snapshots_of(catalog, conditions, SNAPSHOTS.c.server_ns)


def snapshots_of(
    catalog: Catalog, conditions: Iterable[Any], order: ColumnElement[int]
) -> list[Snapshot]:
    """Those to which all conditions apply, in this order."""
    query = select(SNAPSHOTS).where(*conditions).order_by(order, SNAPSHOTS.c.id)
    return [_record(row) for row in catalog.rows(query)]


def counting_snapshots(catalog: Catalog, records: Sequence[Snapshot]) -> frozenset[str]:
    """Ids of those that rules of retention count: copies, and one of each run that went well.

    Of a run that is not known, or names none of them, the first that was stored.
    """
    runs: dict[str, tuple[str, str]] = {}
    wanted = sorted({record.run for record in records if record.run})
    for start in range(0, len(wanted), _BATCH):
        columns = select(RUNS.c.id, RUNS.c.state, RUNS.c.snapshot)
        found = catalog.rows(columns.where(RUNS.c.id.in_(wanted[start : start + _BATCH])))
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
    return {name: KnownSnapshot(*rest) for name, *rest in catalog.rows(select(*columns))}


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
    return {storage: (first, int(size)) for storage, first, size in catalog.rows(query)}


def note_removed(catalog: Catalog, ids: Iterable[str], removed_ns: int, reason: str) -> None:
    """Mark snapshots as removed, with the reason; also those that were only found to be gone."""
    is_there = or_(SNAPSHOTS.c.removed_ns == 0, SNAPSHOTS.c.removed_reason == GONE)
    removed = {"removed_ns": removed_ns, "removed_reason": reason}
    _change(catalog, [SNAPSHOTS.c.id.in_(list(ids)), is_there], removed)


def note_returned(catalog: Catalog, ids: Iterable[str], reason: str) -> None:
    """Unmark snapshots that were marked as removed for that reason."""
    hit = [SNAPSHOTS.c.id.in_(list(ids)), SNAPSHOTS.c.removed_reason == reason]
    _change(catalog, hit, {"removed_ns": 0, "removed_reason": ""})


def _change(catalog: Catalog, hit: list[ColumnElement[bool]], values: dict[str, Any]) -> None:
    with catalog.writing() as connection:
        names = connection.execute(select(SNAPSHOTS.c.client).where(*hit).distinct()).scalars()
        note_stale(connection, *(Changed(client=name) for name in names))
        connection.execute(update(SNAPSHOTS).where(*hit).values(**values))


def note_false(catalog: Catalog, reasons: Mapping[str, str]) -> None:
    """Note what is wrong with snapshots, "" for nothing."""
    with catalog.writing() as connection:
        for name, reason in reasons.items():
            text = plain_columns({"false_reason": reason})
            connection.execute(update(SNAPSHOTS).where(SNAPSHOTS.c.id == name).values(text))


def false_snapshots(catalog: Catalog) -> list[Snapshot]:
    """Existing ones that were found false, the newest first."""
    conditions: list[Any] = [SNAPSHOTS.c.removed_ns == 0, text(IS_FALSE)]
    return snapshots_of(catalog, conditions, SNAPSHOTS.c.server_ns.desc())


def missed_snapshots(catalog: Catalog) -> list[Snapshot]:
    """The newest of a client and job in a storage, where it is gone and none newer is there.

    No one removed it here: somebody did elsewhere, or the store was set back.
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
    return snapshots_of(catalog, conditions, SNAPSHOTS.c.server_ns.desc())


def missed_text(record: Snapshot) -> str:
    """What a missed snapshot means, for warnings and errors."""
    return (
        f"storage {record.storage} does not show snapshot {record.id[:8]} of {record.client} "
        f"({clock.utc_text(record.server_ns)}), the newest known of job {record.job}, nor a newer "
        "one: it was deleted there, or the storage was set back to an earlier state"
    )


class Totals(NamedTuple):
    """Of existing snapshots: how many, the bytes that they stored, and those of all their files."""

    number: int
    stored_bytes: int
    bytes: int


def totals_by_place(
    catalog: Catalog, clients: Collection[str] | None = None
) -> dict[tuple[str, str], Totals]:
    """(Client, storage) -> totals of the snapshots there; of some clients only."""
    of = (SNAPSHOTS.c.client, SNAPSHOTS.c.storage)
    sums = (_total(SNAPSHOTS.c.stored_bytes), _total(SNAPSHOTS.c.bytes))
    query = (
        select(*of, func.count(), *sums)
        .where(SNAPSHOTS.c.removed_ns == 0, *among(SNAPSHOTS.c.client, clients))
        .group_by(*of)
    )
    return {
        (client, storage): Totals(count, int(stored or 0), int(size or 0))
        for client, storage, count, stored, size in catalog.rows(query)
    }


def totals_by_client(
    catalog: Catalog, clients: Collection[str] | None = None
) -> dict[str, tuple[int, int]]:
    """Client -> how many snapshots exist, and the bytes they stored; of some clients only."""
    found: dict[str, tuple[int, int]] = {}
    for (client, _), one in totals_by_place(catalog, clients).items():
        count, stored = found.get(client, (0, 0))
        found[client] = (count + one.number, stored + one.stored_bytes)
    return found


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
) -> Snapshot | None:
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
    found: Counter[str] = Counter()
    for (_, storage), one in totals_by_place(catalog).items():
        found[storage] += one.bytes
    return dict(found)


def _row(record: Snapshot) -> dict[str, Any]:
    columns = {column.name: getattr(record, column.name) for column in SNAPSHOTS.columns}
    return {**plain_columns(columns), "tags": plain_tags(record.tags)}


def _record(row: Any) -> Snapshot:
    fields = dict(row._mapping)  # noqa: SLF001 - SQLAlchemy's API for columns of a row
    return Snapshot(**{**fields, "tags": tuple(fields["tags"])})
