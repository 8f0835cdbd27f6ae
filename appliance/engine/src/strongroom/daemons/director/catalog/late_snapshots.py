"""Snapshots that come to light after their run has ended: from its agent, or in the repository.

A run that was given up (its agent was lost, or never confirmed its end) may have made a snapshot
all the same. It gets one, once. A run whose end its agent reported has the snapshot that the agent
named then, or none: whatever comes later is not entered, or an agent could store as many snapshots
as it takes for retention to forget the good ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import select, update

from strongroom import clock
from strongroom.daemons.director.catalog.runs import NewLine, RunRecord, change_run
from strongroom.daemons.director.catalog.snapshots import SnapshotRecord, insert_snapshots
from strongroom.daemons.director.catalog.tables import RUNS
from strongroom.errors import ConflictError, UnknownNameError

if TYPE_CHECKING:
    from strongroom.daemons.director.catalog.database import Catalog


def why_not_late(run: RunRecord, snapshot_id: str) -> str:
    """Why a run that has ended does not get this snapshot; "" if it does."""
    if run.snapshot == snapshot_id:
        return ""
    if run.snapshot:
        return f"run {run.id} has snapshot {run.snapshot[:8]} already"
    if not run.given_up_ns:
        return f"run {run.id} was not given up: its agent said that it was {run.state}"
    return ""


def add_late_snapshot(catalog: Catalog, record: SnapshotRecord) -> None:
    """Add the snapshot of a run that was given up, and note it with the run. ConflictError."""
    with catalog.writing() as connection:
        wanted = select(RUNS).where(RUNS.c.id == record.run).with_for_update()
        row = connection.execute(wanted).one_or_none()
        if row is None:
            raise UnknownNameError(f"there is no run {record.run}")
        run = RunRecord(**row._mapping)  # noqa: SLF001 - SQLAlchemy's API for columns of a row
        if fault := why_not_late(run, record.id):
            raise ConflictError(fault)
        noted = update(RUNS).where(RUNS.c.id == run.id).values(snapshot=record.id)
        connection.execute(noted)
        insert_snapshots(connection, [record])
    text = f"its snapshot {record.id[:8]} was entered after it had ended"
    change_run(catalog, run.id, {}, [NewLine(clock.now_ns(), "info", text)])
