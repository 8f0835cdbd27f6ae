"""`strongroom repair`: repairs a damaged repository and lists the files that are lost."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from strongroom.base.errors import EXIT_DONE, UsageError
from strongroom.base.printable import printable
from strongroom.base.quantities import counted, duration_text
from strongroom.cli.access import open_repository
from strongroom.cli.live_progress import show_progress
from strongroom.cli.options import number
from strongroom.cli.set_aside import end_with
from strongroom.cli.snapshot_choice import shown_path
from strongroom.cli.terminal import Terminal

if TYPE_CHECKING:
    from strongroom.engine.repair.repair import RepairReport
    from strongroom.engine.repair.snapshots import LostRange, SnapshotLoss

EPILOG = """\
examples:
  strongroom repair --dry-run       show damage, and what would be lost
  strongroom repair                 all of the following, in this order
  strongroom repair index           rebuild the index from the packs
  strongroom repair packs           read every byte; save intact blocks of damaged packs
  strongroom repair snapshots       mark files whose content is lost

Copy the repository first if you can. Files that are lost stay listed, marked as unreadable, and the
next backup reads them again.
"""

_PARTS = ("index", "packs", "snapshots")
_PATHS_SHOWN = 20
_SNAPSHOTS_SHOWN = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what to repair."""
    parser.add_argument(
        "parts",
        metavar="PART",
        nargs="*",
        type=_part,
        help=f"what to repair: {', '.join(_PARTS)} (default: all of them)",
    )
    parser.add_argument(
        "-n", "--dry-run", action="store_true", help="show what would be done, change nothing"
    )
    parser.add_argument(
        "--processes",
        metavar="N",
        type=number(0, 256),
        default=0,
        help="number of reading processes (default: one per core, at most 8)",
    )


def _part(text: str) -> str:
    if text not in _PARTS:
        raise UsageError(f"cannot repair {printable(text)}; use {', '.join(_PARTS)}")
    return text


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Repair, and report what was done and what is lost."""
    from strongroom.engine.repair.repair import ALL_PARTS, RepairOptions, repair

    parts = frozenset(part for part in ALL_PARTS if part in arguments.parts) or ALL_PARTS
    options = RepairOptions(parts, arguments.processes, arguments.dry_run)
    with open_repository(arguments, terminal, "read") as repository:
        with show_progress(terminal, "repair") as progress:
            report = repair(repository, options, progress)
        _write_report(report, terminal)
        end_with(report.set_aside, repository, terminal)
    return EXIT_DONE


def _write_report(report: RepairReport, terminal: Terminal) -> None:
    for action in report.actions:
        terminal.emit(
            {
                "type": "repair_action",
                "kind": action.kind,
                "name": action.name,
                "text": action.text,
                "dry_run": report.dry_run,
            }
        )
        terminal.line(f"{action.kind}/{action.name}: {printable(action.text)}")
    # Snapshots that share a listing have lost the same files: those are listed once.
    alike: dict[object, list[SnapshotLoss]] = {}
    for loss in report.losses:
        _emit_loss(loss, terminal)
        alike.setdefault((tuple(loss.paths), tuple(loss.ranges)), []).append(loss)
    for losses in alike.values():
        _write_losses(losses, terminal)
    lost = sum(loss.row_count for loss in report.losses)
    terminal.emit(
        {
            "type": "repair_summary",
            "dry_run": report.dry_run,
            "actions": len(report.actions),
            "saved_blocks": report.saved_blocks,
            "healed_chunks": report.healed_chunks,
            "damaged_snapshots": len(report.losses),
            "lost_files": lost,
            "elapsed_seconds": round(report.elapsed_seconds, 3),
        }
    )
    if not report.actions:
        terminal.line("nothing to repair")
        return
    would = "to be " if report.dry_run else ""
    terminal.line(
        f"{counted(report.saved_blocks, 'block')} {would}saved, "
        f"{counted(report.healed_chunks, 'chunk')} found again, {counted(lost, 'file')} lost in "
        f"{counted(len(report.losses), 'snapshot')}; {duration_text(report.elapsed_seconds)}"
    )


def _emit_loss(loss: SnapshotLoss, terminal: Terminal) -> None:
    terminal.emit(
        {
            "type": "repair_loss",
            "snapshot": loss.snapshot.id,
            "replaced_by": loss.new_id or None,
            "paths": [shown_path(path) for path in loss.paths],
            "ranges": [
                {
                    "first_path": shown_path(lost.first_path),
                    "before_path": None
                    if lost.before_path is None
                    else shown_path(lost.before_path),
                    "files": lost.row_count,
                }
                for lost in loss.ranges
            ],
        }
    )


def _write_losses(losses: list[SnapshotLoss], terminal: Terminal) -> None:
    loss = losses[0]
    names = ", ".join(one.snapshot.short_id for one in losses[:_SNAPSHOTS_SHOWN])
    more = len(losses) - _SNAPSHOTS_SHOWN
    plural = "s" if len(losses) > 1 else ""
    terminal.line(
        f"lost from snapshot{plural} {names}" + (f" and {more} more:" if more > 0 else ":")
    )
    listed = loss.paths if terminal.verbose else loss.paths[:_PATHS_SHOWN]
    for path in listed:
        terminal.line(f"  {printable(shown_path(path))}")
    if len(listed) < len(loss.paths):
        terminal.line(f"  and {len(loss.paths) - len(listed)} more (--verbose lists them)")
    for lost in loss.ranges:
        terminal.line(f"  {_range_text(lost)}")


def _range_text(lost: LostRange) -> str:
    first = printable(shown_path(lost.first_path))
    if lost.before_path is None:
        return f"{counted(lost.row_count, 'entry')}, names and all, from {first} to the end"
    before = printable(shown_path(lost.before_path))
    return f"{counted(lost.row_count, 'entry')}, names and all, from {first} to before {before}"
