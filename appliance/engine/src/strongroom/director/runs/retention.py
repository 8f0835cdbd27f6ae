"""Which snapshots of a job go after a backup: by its Keep directives, its Pool's, or their age.

The Keep directives of the Job apply if it has any, else those of the Pool, else Volume Retention
as Keep Within; an explicit Volume Retention adds to the Keep directives of the Pool. The newest
snapshot is always kept. The snapshots of one job and client in one pool are evaluated together, by
the director's time of their start, and never by a client's clock. One that lacks a named path
displaces none that has all of them. Each run has one snapshot, and what a failed run stored
displaces none: the agent says that it failed, and each failure is repeated. What Copy To has not
copied yet is kept until it is; only an operator's request removes it before.

Minimum Retention keeps a snapshot in any case, even against an operator's request; it counts from
when the store received it, and the storage daemon enforces its own as well.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

import msgspec

from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.base.errors import (
    DamageError,
    KeyRightError,
    ObjectMissingError,
    SnapshotNotFoundError,
    UnknownFormatError,
)
from strongroom.base.progress import NullProgress
from strongroom.base.quantities import counted
from strongroom.config.settings.configuration import DirectorConfiguration
from strongroom.config.settings.job import JobSettings
from strongroom.config.settings.pool import KeepRules, PoolSettings
from strongroom.director.catalog.copies import uncopied_snapshots
from strongroom.director.catalog.snapshots import (
    counting_snapshots,
    load_snapshot,
    note_removed,
    present_snapshots,
)
from strongroom.director.context import DirectorContext
from strongroom.director.repositories.access import foreign
from strongroom.director.results.runs import Run
from strongroom.director.results.snapshots import Snapshot
from strongroom.engine.prune.forget import ForgetOptions, forget
from strongroom.engine.prune.retention import Candidate, Duration, RetentionRules, reasons_to_keep
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.snapshots import read_snapshot
from strongroom.engine.stores.capabilities import KeepsJudgements

_log = logging.getLogger(__name__)


def rules_of(job: JobSettings | None, pool: PoolSettings) -> RetentionRules:
    """The rules for snapshots of a job in a pool."""
    if job is not None and job.keep is not None:
        return _rules(job.keep)
    retention = Duration(0, pool.volume_retention_seconds)
    if pool.keep is None:
        return RetentionRules(last=1, within=retention)
    shared = _rules(pool.keep)
    if shared.within is None and pool.is_retention_set:
        return msgspec.structs.replace(shared, within=retention)
    return shared


def kept_until_ns(record: Snapshot, pool: PoolSettings | None) -> int:
    """The time before which no one can remove it; 0: there is none. Nothing keeps a false one."""
    if record.false_reason:
        return 0
    minimum = pool.minimum_retention_seconds if pool is not None else 0
    return record.server_ns + minimum * SECOND_NS if minimum else 0


def with_time_kept(configuration: DirectorConfiguration, snapshot: Snapshot) -> Snapshot:
    """The snapshot with the time until which no one can remove it."""
    pool = configuration.pools.get(snapshot.pool)
    return replace(snapshot, kept_until_ns=kept_until_ns(snapshot, pool))


def apply_retention(
    context: DirectorContext, job_name: str, client: str, pool_name: str, storage: str
) -> list[tuple[str, str]]:
    """Remove what nothing keeps; returns lines for a log. Blocks.

    Raises UnknownNameError where the director cannot access the repository, and what that raises.
    """
    pool = context.configuration.pools.get(pool_name)
    if pool is None or not pool.auto_prune:
        return []
    records = present_snapshots(
        context.catalog, pool=pool_name, job=job_name, client=client, storage=storage
    )
    rules = rules_of(context.configuration.jobs.get(job_name), pool)
    counting = counting_snapshots(context.catalog, records)
    candidates = [
        Candidate(
            record.id,
            record.begun_ns,
            frozenset(record.tags),
            lacks_paths=record.missing_paths > 0,
            counts=record.id in counting,
        )
        for record in records
    ]
    reasons = reasons_to_keep(candidates, rules)
    if all(reasons.values()):
        return []
    reasons = reasons_to_keep(_with_unread_marks(context, candidates, storage), rules)
    wanted = [record for record in records if not reasons[record.id]]
    if not wanted:
        return []
    lines = []
    target = context.configuration.copy_target(pool_name)
    if target is not None:
        uncopied = uncopied_snapshots(context.catalog, pool_name, target.storage, storage)
        waiting = {one.id for one in uncopied}
        copied = [one for one in wanted if one.id not in waiting]
        if more := len(wanted) - len(copied):
            lines.append(("info", f"{more} more kept until storage {target.storage} has a copy"))
        if not copied:
            return lines
        wanted = copied
    removed, kept = remove_snapshots(context, wanted, pool, "retention")
    text = f"{counted(len(removed), 'snapshot')} of {len(records):,} forgotten"
    lines.insert(0, ("info", text))
    if kept:
        lines.append(("info", f"{len(kept)} more kept by protection or Minimum Retention"))
    return lines


def _with_unread_marks(
    context: DirectorContext, candidates: Sequence[Candidate], storage: str
) -> list[Candidate]:
    """The candidates with what their envelopes say of unread folders, as far as that matters."""
    marked = {}
    unread: frozenset[bytes] | None = None
    repository = context.repositories.open(storage)
    try:
        for item in sorted(candidates, key=lambda item: -item.time_ns):
            try:
                found = read_snapshot(repository.store, repository.key, item.snapshot_id)
                marks = frozenset(found.unread_marks)
            except (DamageError, KeyRightError, ObjectMissingError, UnknownFormatError):
                # It helps no one, so it does not count as having them.
                marks = unread or frozenset()
            marked[item.snapshot_id] = item._replace(unread_marks=marks)
            unread = marks if unread is None else unread & marks
            if not unread:
                break
    finally:
        repository.close()
    return [marked.get(item.snapshot_id, item) for item in candidates]


def groups_of(context: DirectorContext, record: Run) -> list[tuple[str, str, str, str]]:
    """Which groups a run added to: job, client, pool and storage. Blocks."""
    if record.kind == "copy":
        pool, storage = str(record.summary.get("pool", "")), str(record.summary.get("storage", ""))
        if not record.files or not pool:
            return []
        there = present_snapshots(context.catalog, pool=pool, storage=storage)
        return sorted({(one.job, one.client, pool, storage) for one in there})
    if not record.snapshot or record.kind not in ("backup", "admin"):
        return []
    try:
        # A backup of the catalog has a job and its own client.
        made = load_snapshot(context.catalog, record.snapshot)
    except SnapshotNotFoundError:
        return []  # no one could look it up yet
    return [(made.job, made.client, made.pool, made.storage)]


def remove_snapshots(
    context: DirectorContext,
    records: Sequence[Snapshot],
    pool: PoolSettings | None,
    reason: str,
) -> tuple[list[str], list[str]]:
    """Remove snapshots of one storage unless they are kept; ids removed, ids kept. Blocks.

    One that does not belong to the client in the catalog is kept.
    """
    minimum = pool.minimum_retention_seconds if pool is not None else 0
    now_ns = clock.now_ns()
    due = [record for record in records if kept_until_ns(record, pool) <= now_ns]
    if not due:
        return [], [record.id for record in records]
    repository = context.repositories.open(due[0].storage)
    try:
        snapshots = []
        gone = _remove_false(repository, [record for record in due if record.false_reason])
        for record in due:
            if record.false_reason:
                continue
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
            if report.refused:
                _log.warning(
                    "the storage daemon keeps %d snapshots: %s",
                    len(report.refused),
                    report.refused[0],
                )
    finally:
        repository.close()
    if gone:
        note_removed(context.catalog, gone, now_ns, reason)
    return gone, [record.id for record in records if record.id not in gone]


def _remove_false(repository: Repository, records: Sequence[Snapshot]) -> list[str]:
    """Remove snapshots that were found false, whatever they say of themselves; ids removed.

    A storage daemon keeps young ones that it does not know to be false.
    """
    store = repository.store
    judge = store.capability(KeepsJudgements)
    removed = []
    for record in records:
        try:
            fault = foreign(read_snapshot(store, repository.key, record.id), record)
        except (DamageError, UnknownFormatError, KeyRightError):
            fault = ""
        if fault:
            _log.warning("%s, so it is not removed", fault)
            continue
        if judge is not None:
            judge.vouch("snapshots", [record.id], sound=False)
        store.delete("snapshots", record.id)
        removed.append(record.id)
    if removed:
        store.sync()
    return removed


def _rules(keep: KeepRules) -> RetentionRules:
    within = None if keep.within_seconds is None else Duration(0, keep.within_seconds)
    return RetentionRules(
        last=max(1, keep.last or 0),
        hourly=keep.hourly or 0,
        daily=keep.daily or 0,
        weekly=keep.weekly or 0,
        monthly=keep.monthly or 0,
        yearly=keep.yearly or 0,
        within=within,
        tags=tuple(frozenset((tag,)) for tag in keep.tags),
    )
