"""Which snapshots a copy job copies, and their entry in the catalog; all of it blocks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from strongroom import clock
from strongroom.daemons.director.catalog.snapshots import add_snapshots, present_snapshots
from strongroom.errors import UsageError
from strongroom.repo.snapshots import read_snapshot

if TYPE_CHECKING:
    from collections.abc import Callable

    from strongroom.daemons.director.catalog.runs import RunRecord
    from strongroom.daemons.director.catalog.snapshots import SnapshotRecord
    from strongroom.daemons.director.context import DirectorContext


def selected_snapshots(
    context: DirectorContext, record: RunRecord, target: str
) -> list[SnapshotRecord]:
    """What the job selects and the target Storage has no copy of. Raises UsageError."""
    job = context.configuration.job(record.job)
    kind = job.selection_type or "PoolUncopiedJobs"
    present = present_snapshots(context.catalog, storage=record.storage)
    copied = {one.original for one in present_snapshots(context.catalog, storage=target)}
    pattern = re.compile(job.selection_pattern or ".*")
    tests: dict[str, Callable[[SnapshotRecord], object]] = {
        "PoolUncopiedJobs": lambda one: one.pool == record.pool,
        "Job": lambda one: pattern.fullmatch(one.job),
        "Client": lambda one: pattern.fullmatch(one.client),
    }
    if kind not in tests:
        known = ", ".join(tests)
        raise UsageError(f"a copy job selects by {known}, not by {kind}: there are no volumes")
    return [one for one in present if tests[kind](one) and (one.original or one.id) not in copied]


def enter_copies(
    context: DirectorContext,
    record: RunRecord,
    chosen: list[SnapshotRecord],
    summary: dict[str, Any],
    target: str,
    pool: str,
) -> int:
    """Enter the copies that the end of a copy run names in its summary; how many there are."""
    originals = {one.id: one for one in chosen}
    pairs = [(str(a), str(b)) for a, b in summary.get("copies", ()) if a in originals]
    if not pairs:
        return 0
    repository = context.repositories.open(target)
    try:
        records = []
        for original_id, copy_id in pairs:
            copy = read_snapshot(repository.store, repository.key, copy_id)
            records.append(
                msgspec.structs.replace(
                    originals[original_id],
                    id=copy_id,
                    storage=target,
                    pool=pool,
                    run=record.id,
                    # Of a copy's copy as well the backup, which alone is asked about.
                    original=originals[original_id].original or original_id,
                    server_ns=copy.server_ns or clock.now_ns(),
                    stored_bytes=0,
                )
            )
    finally:
        repository.close()
    return add_snapshots(context.catalog, records)
