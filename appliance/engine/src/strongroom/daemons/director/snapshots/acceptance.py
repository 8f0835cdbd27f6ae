"""An operator says that a backup of far less than usual is right now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strongroom import clock
from strongroom.daemons.director.catalog.runs import NewLine, change_run, find_runs
from strongroom.daemons.director.catalog.snapshots import load_snapshot, note_accepted
from strongroom.daemons.director.results.runs import RunFilter
from strongroom.daemons.director.snapshots.shortfalls import FIELD, shortfalls_of
from strongroom.errors import SnapshotNotFoundError

if TYPE_CHECKING:
    from strongroom.daemons.director.catalog.runs import RunRecord
    from strongroom.daemons.director.context import DirectorContext

_MOST: Final = 1000


def accept_runs(context: DirectorContext, run: RunRecord, who: str) -> list[RunRecord]:
    """Accept a run and those of its job and client after it; the oldest first. Blocks."""
    wanted = RunFilter(
        job=run.job,
        client=run.client,
        after_ns=run.scheduled_ns,
        states=("incomplete",),
        limit=_MOST,
    )
    short = [one for one in find_runs(context.catalog, wanted) if shortfalls_of(one.summary)]
    return [_accept(context, one, who) for one in sorted(short, key=lambda one: one.scheduled_ns)]


def _accept(context: DirectorContext, run: RunRecord, who: str) -> RunRecord:
    lacks = 0
    try:
        snapshot = load_snapshot(context.catalog, run.snapshot)
        lacks = max(0, snapshot.missing_paths - len(shortfalls_of(run.summary)))
        note_accepted(context.catalog, snapshot.id, lacks)
    except SnapshotNotFoundError:
        pass  # it was removed meanwhile
    summary = {name: value for name, value in run.summary.items() if name != FIELD}
    changes = {"summary": summary, "state": "incomplete" if lacks or run.errors else "done"}
    line = NewLine(clock.now_ns(), "info", f"{who} accepted that it holds less than those before")
    changed, _ = change_run(context.catalog, run.id, changes, [line])
    return changed
