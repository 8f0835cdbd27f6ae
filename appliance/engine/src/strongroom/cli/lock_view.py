"""Shows how long object lock protects snapshots, and what was laid over locked objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strongroom.base.clock import local_text, utc_text
from strongroom.base.errors import CheckFailedError
from strongroom.base.printable import printable
from strongroom.base.quantities import counted
from strongroom.cli.table import write_table
from strongroom.cli.terminal import Terminal
from strongroom.engine.stores.store import Kind

if TYPE_CHECKING:
    from strongroom.engine.lock.protection import ProtectionReport

_SHOWN: Final = 5
_COLUMNS: Final = ("ID", "TIME", "HOST", "LOCKED UNTIL", "PROBLEM")


def write_protection(report: ProtectionReport, terminal: Terminal) -> None:
    """Write the table and what is wrong; raises CheckFailedError if something is."""
    for one in report.snapshots:
        terminal.emit(
            {
                "type": "snapshot_lock",
                "snapshot": one.snapshot.id,
                "time": utc_text(one.snapshot.start_ns),
                "host": one.snapshot.host,
                "locked_until": utc_text(one.locked_until_ns) if one.locked_until_ns else None,
                "problem": one.problem,
            }
        )
    terminal.emit(
        {
            "type": "lock_summary",
            "snapshots": len(report.snapshots),
            "unprotected": report.unprotected,
            "deleted_snapshots": report.deleted_snapshots,
            "overlaid": [f"{kind}/{name}" for kind, name in report.overlaid],
            "hidden": [f"{kind}/{name}" for kind, name in report.hidden],
            "marked": [f"{kind}/{name}" for kind, name in report.marked],
        }
    )
    write_table(
        terminal,
        _COLUMNS,
        [
            (
                one.snapshot.short_id,
                local_text(one.snapshot.start_ns),
                printable(one.snapshot.host),
                local_text(one.locked_until_ns) if one.locked_until_ns else "not locked",
                printable(one.problem),
            )
            for one in report.snapshots
        ],
    )
    if report.deleted_snapshots:
        terminal.line(
            f"{counted(report.deleted_snapshots, 'deleted snapshot')} can still be read: "
            "strongroom snapshots --at TIME"
        )
    write_tampering(report.overlaid, report.hidden, terminal, report.marked)
    problems = []
    if report.unprotected:
        problems.append(
            f"{counted(report.unprotected, 'snapshot')} not locked: run strongroom lock"
        )
    if report.overlaid or report.hidden or report.marked:
        problems.append(
            "somebody changed locked objects, which Strongroom never does: change the access key, "
            "and restore as of a time before that (strongroom restore --at TIME)"
        )
    if problems:
        raise CheckFailedError("; ".join(problems))


def write_tampering(
    overlaid: tuple[tuple[Kind, str], ...],
    hidden: tuple[tuple[Kind, str], ...],
    terminal: Terminal,
    marked: tuple[tuple[Kind, str], ...] = (),
) -> None:
    """Warn of objects over which somebody laid something."""
    for what, found in (
        ("has a newer version than the one that was stored", overlaid),
        ("is marked as deleted although a snapshot needs it", hidden),
        ("is named by a tombstone although an older snapshot needs it", marked),
    ):
        for kind, name in found[: None if terminal.verbose else _SHOWN]:
            terminal.warn(f"{kind}/{printable(name)} {what}")
        if len(found) > _SHOWN and not terminal.verbose:
            terminal.warn(f"and {len(found) - _SHOWN} more")
