"""Which snapshots of a pool another storage has no copy of.

A copy that retention or an operator removed is not made again; one that is gone from its repository
is, and one that was found false does not count.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, FromClause, and_, case, func, or_, select, tuple_

from strongroom.base.errors import ConflictError
from strongroom.director.catalog.database import Catalog
from strongroom.director.catalog.snapshots import load_snapshot, snapshots_of
from strongroom.director.catalog.tables import GONE, SNAPSHOTS
from strongroom.director.results.snapshots import Snapshot


def identity_of(table: FromClause) -> ColumnElement[str]:
    """What a snapshot and all its copies share: the id of the backup."""
    return case((table.c.original == "", table.c.id), else_=table.c.original)


def _equal_in_copies(table: FromClause) -> tuple[ColumnElement[Any], ...]:
    """What a snapshot and its copies have alike.

    What a snapshot says that it is a copy of, its client has written: it speaks of no other's. A
    copy that a repair has replaced has more errors, and lacks content.
    """
    return identity_of(table), table.c.client, table.c.errors


_IDENTITY = tuple_(*_equal_in_copies(SNAPSHOTS))


class Backlog(NamedTuple):
    """What of a pool is in one storage and not at the target; oldest_ns, newest_ns: its ends."""

    storage: str
    number: int
    oldest_ns: int
    newest_ns: int


def backlogs(catalog: Catalog, pool: str, target: str) -> list[Backlog]:
    """The backlog of each storage, the one with the oldest snapshot first."""
    stored_ns = SNAPSHOTS.c.server_ns
    columns = (SNAPSHOTS.c.storage, func.count(), func.min(stored_ns), func.max(stored_ns))
    query = select(*columns).where(*_uncopied(pool, target)).group_by(SNAPSHOTS.c.storage)
    return sorted((Backlog(*row) for row in catalog.rows(query)), key=lambda one: one.oldest_ns)


def uncopied_snapshots(catalog: Catalog, pool: str, target: str, storage: str) -> list[Snapshot]:
    """Those in a storage, the oldest first."""
    wanted = [*_uncopied(pool, target), SNAPSHOTS.c.storage == storage]
    return snapshots_of(catalog, wanted, SNAPSHOTS.c.server_ns)


def newest_copied_ns(catalog: Catalog, pool: str, target: str) -> int:
    """When the newest snapshot of a pool was stored that the target has, too; 0: it has none."""
    has_copy = _IDENTITY.in_(_at(target))
    query = select(func.max(SNAPSHOTS.c.server_ns)).where(*_present(pool, target), has_copy)
    (row,) = catalog.rows(query)
    return int(row[0] or 0)


def other_copies(catalog: Catalog, record: Snapshot) -> list[Snapshot]:
    """What is the same backup as a snapshot and is there, elsewhere.

    Those with the fewest errors first, and of these the newest.
    """
    identity = record.original or record.id
    wanted = [
        or_(SNAPSHOTS.c.id == identity, SNAPSHOTS.c.original == identity),
        SNAPSHOTS.c.id != record.id,
        SNAPSHOTS.c.client == record.client,
        SNAPSHOTS.c.job == record.job,
        # Not what was rewritten without some paths, which names the same backup.
        SNAPSHOTS.c.files == record.files,
        SNAPSHOTS.c.bytes == record.bytes,
        SNAPSHOTS.c.removed_ns == 0,
        SNAPSHOTS.c.false_reason == "",
    ]
    found = snapshots_of(catalog, wanted, SNAPSHOTS.c.server_ns.desc())
    return sorted(found, key=lambda one: one.errors)


def restorable(catalog: Catalog, beginning: str, storage: str = "") -> Snapshot:
    """The snapshot of this id, or its copy: in a storage, or where it is gone from its own.

    Raises SnapshotNotFoundError; ConflictError where that storage has no copy.
    """
    found = load_snapshot(catalog, beginning)
    if storage in ("", found.storage) and found.removed_reason != GONE:
        return found
    copies = [one for one in other_copies(catalog, found) if storage in ("", one.storage)]
    if storage and not copies:
        raise ConflictError(f"snapshot {found.id[:8]} is not in storage {storage}, nor a copy")
    return copies[0] if copies else found


def _uncopied(pool: str, target: str) -> list[Any]:
    return [*_present(pool, target), _IDENTITY.not_in(_at(target))]


def _present(pool: str, target: str) -> list[Any]:
    return [
        SNAPSHOTS.c.pool == pool,
        SNAPSHOTS.c.storage != target,
        SNAPSHOTS.c.removed_ns == 0,
        SNAPSHOTS.c.false_reason == "",
    ]


def _at(target: str) -> Any:
    """The same of what is, or was, at a storage."""
    there = SNAPSHOTS.alias("there")
    return select(*_equal_in_copies(there)).where(
        and_(
            there.c.storage == target,
            there.c.false_reason == "",
            or_(there.c.removed_ns == 0, there.c.removed_reason != GONE),
        )
    )
