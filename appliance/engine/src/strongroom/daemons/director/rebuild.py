"""The catalog from repositories alone: whatever snapshots they hold and the catalog does not know.

Everything that a restore needs is in the repository. Snapshots tell their client (the host), job,
FileSet, level and times, and by their tags the run and the pool. What only the catalog had (failed
runs, logs, tokens, the audit log) comes back from a backup of the catalog, if at all.

Names in a snapshot are its writer's word, and an agent that could write under another's name would
push the other's snapshots out. The storage daemon knows who stored what, so a snapshot that an
agent stored is entered only if it is the client that the snapshot names. What the appliance stored,
and what nobody is known to have stored, is believed, as is all in a plain folder.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from strongroom.daemons.director.catalog.runs import RunRecord, add_run, load_run
from strongroom.daemons.director.catalog.snapshots import (
    SnapshotRecord,
    add_snapshots,
    present_snapshots,
)
from strongroom.daemons.director.confirmation import count_of
from strongroom.daemons.director.orders import POOL_TAG, RUN_TAG
from strongroom.errors import ConflictError, UnknownNameError
from strongroom.jobs.false_names import falsely_named

if TYPE_CHECKING:
    from strongroom.daemons.director.context import DirectorContext
    from strongroom.repo.repository import Repository
    from strongroom.repo.snapshots import Snapshot

_log = logging.getLogger(__name__)


def rebuild_catalog(context: DirectorContext, storage: str) -> int:
    """Enter the snapshots of a storage that the catalog does not know; how many. Blocks.

    What the catalog knows is left as it is, and so are snapshots that were forgotten.
    """
    known = {one.id for one in present_snapshots(context.catalog, storage=storage)}
    repository = context.repositories.open(storage)
    try:
        found = [one for one in repository.snapshots() if one.id not in known]
        false = falsely_named(repository.store, found)
        for one in found:
            if one.id in false:
                text = "snapshot %s says that it is of %r, but %s stored it: it is not entered"
                _log.warning(text, one.short_id, one.host, false[one.id])
        found = [one for one in found if one.id not in false]
        records = [_record(context, repository, storage, snapshot) for snapshot in found]
    finally:
        repository.close()
    for record in records:
        _enter_run(context, record)
    return add_snapshots(context.catalog, records)


def _record(
    context: DirectorContext, repository: Repository, storage: str, snapshot: Snapshot
) -> SnapshotRecord:
    totals = snapshot.totals
    run_id = _tagged(snapshot, RUN_TAG)
    pool = _tagged(snapshot, POOL_TAG)
    job = context.configuration.find("Job", snapshot.job)
    if not pool and job is not None and job.pool is not None:
        pool = job.pool.name
    # A copy within the same repository is none.
    origin, _, original = snapshot.original.partition(":")
    return SnapshotRecord(
        id=snapshot.id,
        client=snapshot.host,
        job=snapshot.job,
        fileset=snapshot.fileset,
        storage=storage,
        pool=pool,
        level=snapshot.level,
        run=run_id if _is_id(run_id) else "",
        original=original if origin != repository.config.id else "",
        start_ns=count_of(snapshot.start_ns),
        server_ns=count_of(snapshot.server_ns or snapshot.end_ns),
        files=count_of(totals.files),
        bytes=count_of(totals.content_bytes),
        stored_bytes=count_of(totals.stored_bytes),
        errors=count_of(snapshot.error_count),
        tags=snapshot.tags,
    )


def _enter_run(context: DirectorContext, record: SnapshotRecord) -> None:
    """The run that made a snapshot, as far as the snapshot tells."""
    if not record.run or record.original:
        return
    try:
        load_run(context.catalog, record.run)
    except UnknownNameError:
        pass
    except ConflictError:
        return
    else:
        return
    add_run(
        context.catalog,
        RunRecord(
            id=record.run,
            job=record.job,
            client=record.client,
            fileset=record.fileset,
            storage=record.storage,
            pool=record.pool,
            level=record.level,
            kind="backup",
            state="incomplete" if record.errors else "done",
            scheduled_ns=record.start_ns,
            queued_ns=record.start_ns,
            started_ns=record.start_ns,
            ended_ns=record.server_ns,
            files=record.files,
            bytes=record.bytes,
            stored_bytes=record.stored_bytes,
            errors=record.errors,
            snapshot=record.id,
            reason="read back from the repository",
            requested_by="rebuild",
        ),
    )


def _tagged(snapshot: Snapshot, prefix: str) -> str:
    return next((tag[len(prefix) :] for tag in snapshot.tags if tag.startswith(prefix)), "")


def _is_id(text: str) -> bool:
    return len(text) == 32 and all(c in "0123456789abcdef" for c in text)
