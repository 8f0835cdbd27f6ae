"""The end of a run as its agent reports it: its counts, and for a backup its snapshot."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any, Final

from strongroom.base.errors import (
    CatalogUnavailableError,
    ConflictError,
    FalseSnapshotError,
    StrongroomError,
)
from strongroom.director.catalog.late_snapshots import add_late_snapshot, why_not_late
from strongroom.director.catalog.runs import NewLine
from strongroom.director.catalog.snapshots import add_snapshots
from strongroom.director.context import DirectorContext
from strongroom.director.results.runs import Run
from strongroom.director.runs.active_run import ActiveRun, Ending
from strongroom.director.runs.agent_limits import bounded_data
from strongroom.director.runs.lifecycle import Runs
from strongroom.director.shown_text import connection_text, shown
from strongroom.director.snapshots.confirmation import (
    Confirmed,
    confirm_snapshot,
    is_count,
    walk_confirmed,
)
from strongroom.director.snapshots.shortfalls import FIELD, shortfalls
from strongroom.net.control.messages import RunEnded
from strongroom.service.log_lines import LimitedLines

_LONGEST_TEXT: Final = 4096
_ACCEPT: Final = "; if that is intended: `strongroom accept` and the run"


class RunEnds:
    """Ends runs as their agents report it, and keeps snapshots that arrive later."""

    def __init__(self, context: DirectorContext, runs: Runs, lines: LimitedLines) -> None:
        self._context = context
        self._runs = runs
        self._lines = lines

    async def end(self, active: ActiveRun, message: RunEnded, lines: list[NewLine]) -> None:
        """Write the end of a run; lines: for its log. With the run's lock held."""
        record = active.record
        summary = bounded_data(message.summary)
        summary.pop(FIELD, None)  # the director's own
        changes: dict[str, Any] = {
            "sequence": message.sequence,
            "summary": summary,
            "security": bounded_data(message.security),
        }
        state = str(message.status)
        error_id, reason = shown(message.error_id, 100), message.error[:_LONGEST_TEXT]
        logged = [(line.level, line.text) for line in lines]
        counts, false = counts_of(message.summary)
        changes |= counts
        logged += [("warning", f"the agent's summary is false: {one}") for one in false]
        if record.kind == "backup" and message.snapshot:
            try:
                confirmed = await self._confirmed(record, message)
            except StrongroomError as error:
                state, error_id, reason = "failed", error.error_id, str(error)
            else:
                logged += confirmed.lines
                changes["snapshot"] = message.snapshot
                if confirmed.record is not None:
                    confirmed, short = await self._judged(confirmed, summary)
                    if short:
                        summary[FIELD] = short
                        logged += [("warning", f"{text}{_ACCEPT}") for _, text in short]
                        state = "incomplete" if state == "done" else state
                    assert confirmed.record is not None
                    if fault := confirmed.record.false_reason:
                        error_id = FalseSnapshotError.error_id
                        state, reason = "failed", _false_text(message.snapshot, fault)
                        text = "run %s of %s: %s"
                        about = (record.id, record.client, shown(reason))
                        self._lines.log(record.client, logging.WARNING, text, *about)
                    # Before the run's end is written: a crash in between only writes it again.
                    await self._context.ask(add_snapshots, [confirmed.record])
        if connection := connection_text(changes["security"]):
            logged.append(("info", f"connection to the storage daemon: {connection}"))
        ending = active.ending
        if state == "cancelled" and ending is not None:
            state, error_id, reason = ending.state, ending.error_id, ending.reason
        end = Ending(state, reason, error_id, changes, tuple(logged), is_reported=True)
        await self._runs.end(active, end)

    async def keep_late(self, record: Run, message: RunEnded) -> None:
        """The snapshot of a run that was given up; of one that has ended by itself nothing."""
        if record.kind != "backup" or not message.snapshot or record.snapshot == message.snapshot:
            return
        try:
            if fault := why_not_late(record, message.snapshot):
                raise ConflictError(f"a late snapshot is not entered: {fault}")
            confirmed = await self._confirmed(record, message)
            if confirmed.record is not None:
                summary = bounded_data(message.summary)
                confirmed, _ = await self._judged(confirmed, summary)
                assert confirmed.record is not None
                await self._context.ask(add_late_snapshot, confirmed.record)
                if fault := confirmed.record.false_reason:
                    raise FalseSnapshotError(_false_text(message.snapshot, fault))
        except CatalogUnavailableError:
            raise
        except StrongroomError as error:
            text = "run %s: %s"
            self._lines.log(record.client, logging.WARNING, text, record.id, shown(error))

    async def _judged(
        self, confirmed: Confirmed, summary: dict[str, Any]
    ) -> tuple[Confirmed, list[list[str]]]:
        """Note in the record of the snapshot what it is short of."""
        record = confirmed.record
        if record is None or record.false_reason:
            return confirmed, []
        context = self._context
        short = await context.ask(shortfalls, record, summary)
        lacks = record.missing_paths + len(short)
        changed = replace(record, missing_paths=lacks)
        return confirmed._replace(record=changed), short

    async def _confirmed(self, record: Run, message: RunEnded) -> Confirmed:
        context = self._context
        confirmed = await context.with_repository(confirm_snapshot, context, record, message)
        if confirmed.record is None:
            return confirmed
        return await context.in_walk(record.client, walk_confirmed, context, record, confirmed)


def _false_text(snapshot: str, fault: str) -> str:
    return f"snapshot {snapshot[:8]} is false and not used: {fault}; find out why, then forget it"


def counts_of(summary: dict[str, Any]) -> tuple[dict[str, int], list[str]]:
    """Columns of the catalog from a summary, and the figures in it that cannot be true."""
    names = {
        "files": ("files", "entries", "actions"),
        "bytes": ("size_bytes", "written_bytes", "read_bytes", "freed_bytes"),
        "stored_bytes": ("stored_bytes",),
        "errors": ("problems", "errors"),
    }
    found: dict[str, int] = {}
    false: list[str] = []
    for column, fields in names.items():
        for name in fields:
            if name not in summary:
                continue
            value = summary[name]
            if isinstance(value, dict):
                value = sum(one for one in value.values() if isinstance(one, int))
            if is_count(value):
                found[column] = value
                break
            false.append(f"{name} is not a possible number")
    return found, false
