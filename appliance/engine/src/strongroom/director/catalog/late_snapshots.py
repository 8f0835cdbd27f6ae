"""Snapshots that come to light after their run has ended: from its agent, or in the repository.

A run that was given up (its agent was lost, or never confirmed its end) may have made a snapshot
all the same. It gets one, once. A run whose end its agent reported has the snapshot that the agent
named then, or none: whatever comes later is not entered, or an agent could store as many snapshots
as it takes for retention to forget the good ones.
"""

from __future__ import annotations

from sqlalchemy import select, update

from strongroom.base import clock
from strongroom.base.errors import ConflictError, UnknownNameError
from strongroom.director.catalog.database import Catalog
from strongroom.director.catalog.runs import NewLine, change_run, run_of_row
from strongroom.director.catalog.snapshots import insert_snapshots
from strongroom.director.catalog.tables import RUNS
from strongroom.director.results.runs import Run
from strongroom.director.results.snapshots import Snapshot


def why_not_late(run: Run, snapshot_id: str) -> str:
    """Why a run that has ended does not get this snapshot; "" if it does."""
    if run.snapshot == snapshot_id:
        return ""
    if run.snapshot:
        return f"run {run.id} has snapshot {run.snapshot[:8]} already"
    if not run.given_up_ns:
        return f"run {run.id} was not given up: its agent reported it as {run.state}"
    return ""


def add_late_snapshot(catalog: Catalog, record: Snapshot) -> None:
    """Add the snapshot of a run that was given up, and note it with the run. ConflictError."""
    with catalog.writing() as connection:
        wanted = select(RUNS).where(RUNS.c.id == record.run).with_for_update()
        row = connection.execute(wanted).one_or_none()
        if row is None:
            raise UnknownNameError(f"there is no run {record.run}")
        run = run_of_row(row)
        if fault := why_not_late(run, record.id):
            raise ConflictError(fault)
        noted = update(RUNS).where(RUNS.c.id == run.id).values(snapshot=record.id)
        connection.execute(noted)
        insert_snapshots(connection, [record])
    text = f"its snapshot {record.id[:8]} was entered after it had ended"
    change_run(catalog, run.id, {}, [NewLine(clock.now_ns(), "info", text)])
