"""Enters snapshots found in a repository into the catalog, and the runs that made them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from strongroom.base.errors import (
    CatalogError,
    CatalogUnavailableError,
    ConflictError,
)
from strongroom.director.catalog.late_snapshots import add_late_snapshot
from strongroom.director.catalog.runs import add_run, is_run_id, known_run
from strongroom.director.catalog.snapshots import add_snapshots
from strongroom.director.context import DirectorContext
from strongroom.director.results.runs import Run, RunState
from strongroom.director.results.snapshots import Snapshot
from strongroom.director.shown_text import shown
from strongroom.director.snapshots.confirmation import as_stored, record_of, run_tag
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.snapshots import POOL_TAG
from strongroom.engine.repository.snapshots import Snapshot as StoredSnapshot

# The number of values that databases accept in one statement.
_BATCH: Final = 1000

# Errors of a database or its driver for values that it does not accept.
_UNFIT: Final = (CatalogError, ValueError, OverflowError)

_Item = TypeVar("_Item")


def batches(items: Sequence[_Item]) -> Iterator[Sequence[_Item]]:
    """In pieces, each of as many as databases accept in one statement."""
    for start in range(0, len(items), _BATCH):
        yield items[start : start + _BATCH]


def run_of(context: DirectorContext, snapshot: StoredSnapshot) -> Run | None:
    """The backup that a snapshot says made it, if it is one of its client and job."""
    run = known_run(context.catalog, run_tag(snapshot))
    if run is None or not run.is_final:
        return None
    is_its = (run.kind, run.client, run.job) == ("backup", snapshot.host, snapshot.job)
    return run if is_its else None


def is_of_lost_run(context: DirectorContext, snapshot: StoredSnapshot) -> bool:
    """Whether it names a run of which the catalog knows nothing."""
    run_id = run_tag(snapshot)
    return is_run_id(run_id) and known_run(context.catalog, run_id) is None


def new_record(
    context: DirectorContext, repository: Repository, storage: str, snapshot: StoredSnapshot
) -> Snapshot:
    """What the catalog will say of a snapshot, as far as it and its run tell."""
    # A copy within the same repository is none.
    origin, _, _ = snapshot.original.partition(":")
    original = snapshot.original if origin != repository.config.id else ""
    run = None if original else run_of(context, snapshot)
    received_ns = snapshot.server_ns or snapshot.end_ns
    if run is not None and run.storage == storage:
        return record_of(snapshot, run, snapshot.start_ns, received_ns)
    run_id = run_tag(snapshot)
    pool = _tagged(snapshot, POOL_TAG)
    job = context.configuration.jobs.get(snapshot.job)
    if not pool and job is not None:
        pool = job.pool
    target = context.configuration.copy_target(pool) if original else None
    if target is not None and target.storage == storage:
        # The tag is of the backup; the run that copied it was killed before it entered the copy.
        pool = target.pool
    return replace(
        as_stored(snapshot, received_ns),
        storage=storage,
        pool=pool,
        run=run_id if is_run_id(run_id) else "",
        original=original.partition(":")[2],
    )


def enter(context: DirectorContext, records: Sequence[Snapshot]) -> dict[str, str]:
    """Add snapshots and their runs; returns those that failed, and why.

    CatalogUnavailableError when the catalog is unavailable.
    """
    unfit: dict[str, str] = {}
    for batch in batches(records):
        try:
            _enter_all(context, batch)
        except CatalogUnavailableError:
            raise
        except _UNFIT:
            # One invalid snapshot must not block the others.
            for record in batch:
                try:
                    _enter_all(context, (record,))
                except CatalogUnavailableError:
                    raise
                except _UNFIT as error:
                    unfit[record.id] = f"the catalog rejects it: {shown(error)}"
    return unfit


def enter_late(context: DirectorContext, records: Sequence[Snapshot]) -> dict[str, str]:
    """Add snapshots of runs that were given up, the first to arrive first; the others, and why."""
    unfit: dict[str, str] = {}
    for record in sorted(records, key=lambda one: one.server_ns):
        try:
            add_late_snapshot(context.catalog, record)
        except CatalogUnavailableError:
            raise
        except ConflictError as error:
            unfit[record.id] = str(error)
        except _UNFIT as error:
            unfit[record.id] = f"the catalog rejects it: {shown(error)}"
    return unfit


def _enter_all(context: DirectorContext, records: Sequence[Snapshot]) -> None:
    for record in records:
        _enter_run(context, record)
    add_snapshots(context.catalog, records)


def _enter_run(context: DirectorContext, record: Snapshot) -> None:
    """The run that made a snapshot, as far as the snapshot tells."""
    if not record.run or record.original or known_run(context.catalog, record.run) is not None:
        return
    add_run(
        context.catalog,
        Run(
            id=record.run,
            job=record.job,
            client=record.client,
            fileset=record.fileset,
            storage=record.storage,
            pool=record.pool,
            level=record.level,
            kind="backup",
            state=_state_of(record),
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


def _state_of(record: Snapshot) -> RunState:
    if record.false_reason:
        return "failed"
    return "incomplete" if record.errors else "done"


def _tagged(snapshot: StoredSnapshot, prefix: str) -> str:
    return next((tag[len(prefix) :] for tag in snapshot.tags if tag.startswith(prefix)), "")
