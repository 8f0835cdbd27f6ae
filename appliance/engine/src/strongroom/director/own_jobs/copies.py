"""What a copy job copies, and its copies in the catalog.

The copy job of a Pool with Copy To copies what the second storage lacks. Other copy jobs copy what
their selection names to the Storage of their Next Pool: `PoolUncopiedJobs` all of their pool, `Job`
and `Client` those whose job or client matches the Selection Pattern.

A copy is walked before it is entered: only one that was found sound counts as a copy.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from strongroom.base import clock
from strongroom.base.errors import UsageError
from strongroom.config.settings.configuration import CopyTarget
from strongroom.config.settings.job import JobSettings
from strongroom.director.catalog.copies import uncopied_snapshots
from strongroom.director.catalog.snapshots import add_snapshots, present_snapshots
from strongroom.director.context import DirectorContext
from strongroom.director.results.runs import Run
from strongroom.director.results.snapshots import Snapshot
from strongroom.director.runs.requests import RunRequest
from strongroom.director.snapshots.verdicts import walked
from strongroom.engine.repository.snapshots import read_snapshot
from strongroom.engine.stores.capabilities import stored_by_agents


def planned_copies(context: DirectorContext, record: Run) -> tuple[CopyTarget, list[Snapshot]]:
    """Where a run copies to, and what. Blocks. Raises UsageError, CatalogError."""
    configuration = context.configuration
    job = configuration.job(record.job)
    if job.is_of_pool:
        target = configuration.copy_target(record.pool)
        if target is None:
            raise UsageError(f"the Storage that Copy To of Pool {record.pool} needs is disabled")
        storage = record.storage
        return target, uncopied_snapshots(context.catalog, record.pool, target.storage, storage)
    stated = str(RunRequest.of(record).overrides.get("next_pool", ""))
    pool = configuration.next_pool_of(job, record.pool, stated)
    if pool is None or not pool.storages:
        raise UsageError(
            f"copy job {record.job} needs a Next Pool (its own or its Pool's) with a Storage"
        )
    target = CopyTarget(pool.storages[0], pool.name)
    return target, _selected(context, job, record, target.storage)


def _selected(
    context: DirectorContext, job: JobSettings, record: Run, target: str
) -> list[Snapshot]:
    """What the job selects and the target Storage has no copy of. Raises UsageError."""
    kind = job.selection_type or "PoolUncopiedJobs"
    present = present_snapshots(context.catalog, storage=record.storage)
    there = present_snapshots(context.catalog, storage=target)
    copied = {(one.original, one.client, one.errors) for one in there}
    pattern = re.compile(job.selection_pattern or ".*")
    tests: dict[str, Callable[[Snapshot], object]] = {
        "PoolUncopiedJobs": lambda one: one.pool == record.pool,
        "Job": lambda one: pattern.fullmatch(one.job),
        "Client": lambda one: pattern.fullmatch(one.client),
    }
    if kind not in tests:
        known = ", ".join(tests)
        raise UsageError(f"a copy job selects by {known}, not by {kind}: Strongroom has no volumes")
    chosen = [one for one in present if tests[kind](one)]
    return [one for one in chosen if (one.original or one.id, one.client, one.errors) not in copied]


class EnteredCopies(NamedTuple):
    """How many copies are new in the catalog; faults: id -> what is wrong, of those that are."""

    number: int
    faults: dict[str, str]

    def lines(self) -> tuple[tuple[str, str], ...]:
        """For the log of the run."""
        return tuple(
            ("error", f"copy {name[:8]} does not count: {why}") for name, why in self.faults.items()
        )


def enter_copies(
    context: DirectorContext,
    record: Run,
    chosen: list[Snapshot],
    summary: dict[str, Any],
    target: str,
    pool: str,
) -> EnteredCopies:
    """Enter the copies that the end of a copy run names in its summary. Blocks."""
    originals = {one.id: one for one in chosen}
    pairs = [(str(a), str(b)) for a, b in summary.get("copies", ()) if a in originals]
    if not pairs:
        return EnteredCopies(0, {})
    repository = context.repositories.open(target)
    try:
        owned = stored_by_agents(repository.store)
        refused = {copy: "an agent stored it" for _, copy in pairs if copy in owned}
        records = []
        for original_id, copy_id in pairs:
            if copy_id in refused:
                continue
            copy = read_snapshot(repository.store, repository.key, copy_id)
            records.append(
                replace(
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
    sound, faults = walked(context, target, records)
    faults |= refused | {one.id: one.false_reason for one in sound if one.false_reason}
    return EnteredCopies(add_snapshots(context.catalog, sound), faults)
