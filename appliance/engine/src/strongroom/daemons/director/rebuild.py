"""The catalog from repositories alone: whatever snapshots they hold and the catalog does not know.

Everything that a restore needs is in the repository. Snapshots tell their client (the host), job,
FileSet, level and times, and by their tags the run and the pool. What only the catalog had (failed
runs, logs, tokens, the audit log) comes back from a backup of the catalog, if at all.

Tags and names in a snapshot are its writer's word, so a snapshot is entered only for a client that
the storage daemon would believe: on rebuilding that is everyone, since an agent can write under
its own name only (the daemon knows who stored what, and a restore's grant names that owner).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strongroom.daemons.director.catalog.runs import RunRecord, add_run, load_run
from strongroom.daemons.director.catalog.snapshots import (
    SnapshotRecord,
    add_snapshots,
    present_snapshots,
)
from strongroom.daemons.director.orders import POOL_TAG, RUN_TAG
from strongroom.errors import ConflictError, UnknownNameError

if TYPE_CHECKING:
    from strongroom.daemons.director.context import DirectorContext
    from strongroom.repo.repository import Repository
    from strongroom.repo.snapshots import Snapshot


def rebuild_catalog(context: DirectorContext, storage: str) -> int:
    """Enter the snapshots of a storage that the catalog does not know; how many. Blocks.

    What the catalog knows is left as it is, and so are snapshots that were forgotten.
    """
    known = {one.id for one in present_snapshots(context.catalog, storage=storage)}
    repository = context.repositories.open(storage)
    try:
        found = [one for one in repository.snapshots() if one.id not in known]
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
        start_ns=snapshot.start_ns,
        server_ns=snapshot.server_ns or snapshot.end_ns,
        files=totals.files,
        bytes=totals.content_bytes,
        stored_bytes=totals.stored_bytes,
        errors=snapshot.error_count,
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
