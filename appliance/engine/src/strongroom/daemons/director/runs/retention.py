"""Which snapshots of a job go after a backup: by its Keep directives, its Pool's, or their age.

The Keep directives of the Job hold if it has any, else those of the Pool, else Volume Retention
as Keep Within; an explicit Volume Retention adds to the Keep directives of the Pool. The newest
snapshot always stays. The snapshots of one job and client in one pool are judged together, by
when the director had them begun, and never by a client's clock.

Minimum Retention keeps a snapshot whatever is said, an operator's wish included; it counts from
when the store received it, and the storage daemon holds to its own besides.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from strongroom import clock
from strongroom.clock import SECOND_NS
from strongroom.daemons.director.catalog.snapshots import (
    load_snapshot,
    note_removed,
    present_snapshots,
)
from strongroom.daemons.director.repositories.ownership import foreign
from strongroom.daemons.director.results import Snapshot
from strongroom.errors import ObjectMissingError
from strongroom.jobs.upkeep.forget import ForgetOptions, forget
from strongroom.jobs.upkeep.retention import Candidate, Duration, RetentionRules, reasons_to_keep
from strongroom.progress import NullProgress
from strongroom.repo.snapshots import read_snapshot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strongroom.config.model import ComponentConfiguration, Resource
    from strongroom.daemons.director.catalog.runs import RunRecord
    from strongroom.daemons.director.catalog.snapshots import SnapshotRecord
    from strongroom.daemons.director.context import DirectorContext

_COUNTS: Final = ("last", "hourly", "daily", "weekly", "monthly", "yearly")
_log = logging.getLogger(__name__)


def rules_of(job: Resource | None, pool: Resource) -> RetentionRules:
    """The rules for snapshots of a job in a pool."""
    own = _keeps(job) if job is not None else None
    if own is not None:
        return own
    retention = int(pool.volume_retention_seconds or 0)
    shared = _keeps(pool)
    if shared is None:
        return RetentionRules(last=1, within=Duration(0, retention))
    if shared.within is None and pool.is_set("volume_retention_seconds"):
        return replace(shared, within=Duration(0, retention))
    return shared


def kept_until_ns(record: SnapshotRecord, pool: Resource | None) -> int:
    """Nobody can remove it earlier; 0: there is no such time."""
    minimum = int(pool.minimum_retention_seconds or 0) if pool is not None else 0
    return record.server_ns + minimum * SECOND_NS if minimum else 0


def snapshot_info(configuration: ComponentConfiguration, record: SnapshotRecord) -> Snapshot:
    """What is told of a snapshot."""
    pool = configuration.find("Pool", record.pool)
    return Snapshot(
        id=record.id,
        client=record.client,
        job=record.job,
        fileset=record.fileset,
        storage=record.storage,
        pool=record.pool,
        level=record.level,
        run=record.run,
        original=record.original,
        start_ns=record.start_ns,
        server_ns=record.server_ns,
        files=record.files,
        bytes=record.bytes,
        stored_bytes=record.stored_bytes,
        errors=record.errors,
        tags=record.tags,
        removed_ns=record.removed_ns,
        kept_until_ns=kept_until_ns(record, pool),
    )


def apply_retention(
    context: DirectorContext, job_name: str, client: str, pool_name: str, storage: str
) -> list[tuple[str, str]]:
    """Remove what nothing keeps; what was done, as lines for a log. Blocks.

    Raises UnknownNameError where the director cannot reach the repository, and what that raises.
    """
    pool = context.configuration.find("Pool", pool_name)
    if pool is None or not pool.auto_prune:
        return []
    records = present_snapshots(
        context.catalog, pool=pool_name, job=job_name, client=client, storage=storage
    )
    rules = rules_of(context.configuration.find("Job", job_name), pool)
    candidates = [
        Candidate(record.id, record.begun_ns, frozenset(record.tags)) for record in records
    ]
    reasons = reasons_to_keep(candidates, rules)
    wanted = [record for record in records if not reasons[record.id]]
    if not wanted:
        return []
    removed, kept = remove_snapshots(context, wanted, pool, "retention")
    lines = [("info", f"{len(removed)} snapshots were forgotten, {len(records)} were looked at")]
    if kept:
        lines.append(("info", f"{len(kept)} more are kept by protection or Minimum Retention"))
    return lines


def groups_of(context: DirectorContext, record: RunRecord) -> list[tuple[str, str, str, str]]:
    """Which snapshots a run added to: job, client, pool and storage, as judged together. Blocks."""
    if record.kind == "copy":
        pool, storage = str(record.summary.get("pool", "")), str(record.summary.get("storage", ""))
        if not record.files or not pool:
            return []
        there = present_snapshots(context.catalog, pool=pool, storage=storage)
        return sorted({(one.job, one.client, pool, storage) for one in there})
    if not record.snapshot or record.kind not in ("backup", "admin"):
        return []
    # A backup of the catalog has a job and a client of its own.
    made = load_snapshot(context.catalog, record.snapshot)
    return [(made.job, made.client, made.pool, made.storage)]


def remove_snapshots(
    context: DirectorContext,
    records: Sequence[SnapshotRecord],
    pool: Resource | None,
    reason: str,
) -> tuple[list[str], list[str]]:
    """Remove snapshots of one storage unless they are kept; ids removed, ids kept. Blocks.

    One that is not of the client that the catalog says is kept.
    """
    minimum = int(pool.minimum_retention_seconds or 0) if pool is not None else 0
    now_ns = clock.now_ns()
    due = [record for record in records if kept_until_ns(record, pool) <= now_ns]
    if not due:
        return [], [record.id for record in records]
    repository = context.repositories.open(due[0].storage)
    try:
        snapshots = []
        gone: list[str] = []
        for record in due:
            try:
                snapshot = read_snapshot(repository.store, repository.key, record.id)
            except ObjectMissingError:
                gone.append(record.id)
                continue
            if fault := foreign(snapshot, record):
                _log.warning("%s, so it is not removed", fault)
            else:
                snapshots.append(snapshot)
        options = ForgetOptions(
            snapshot_ids=tuple(snapshot.id for snapshot in snapshots),
            minimum_retention_seconds=minimum,
        )
        if snapshots:
            report = forget(repository, snapshots, options, NullProgress())
            gone += [snapshot.id for group in report.groups for snapshot in group.removed]
    finally:
        repository.close()
    if gone:
        note_removed(context.catalog, gone, now_ns, reason)
    return gone, [record.id for record in records if record.id not in gone]


def _keeps(resource: Resource) -> RetentionRules | None:
    """The Keep directives of a Job or Pool; None: it has none."""
    fields: dict[str, Any] = {
        name: int(value)
        for name in _COUNTS
        if (value := getattr(resource, f"keep_{name}")) is not None
    }
    if resource.keep_within_seconds is not None:
        fields["within"] = Duration(0, int(resource.keep_within_seconds))
    if resource.keep_tag:
        fields["tags"] = tuple(frozenset((tag,)) for tag in resource.keep_tag)
    if not fields:
        return None
    return RetentionRules(**{**fields, "last": max(1, int(fields.get("last", 0)))})
