"""`strongroom check`: looks for damage and reports the affected snapshots and files."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING

from strongroom.base.clock import local_text, utc_text
from strongroom.base.errors import EXIT_DONE, CheckFailedError, UsageError
from strongroom.base.printable import printable
from strongroom.base.quantities import counted, duration_text, size_text
from strongroom.cli.access import open_repository
from strongroom.cli.live_progress import show_progress
from strongroom.cli.options import REPEATED, memory, number
from strongroom.cli.set_aside import end_with
from strongroom.cli.snapshot_choice import shown_path
from strongroom.cli.terminal import Terminal
from strongroom.engine.repository.object_owners import ObjectOwners
from strongroom.engine.repository.set_aside import SetAside
from strongroom.engine.repository.snapshots import find_snapshot

if TYPE_CHECKING:
    from strongroom.engine.check.check import CheckReport, DataSubset
    from strongroom.engine.check.damage import Finding

EPILOG = """\
examples:
  strongroom check                          structure: every object is present and consistent
  strongroom check --read-data              every stored byte as well
  strongroom check --read-data=5%           a random twentieth of the packs
  strongroom check --read-data=3/7          the third of seven parts: one a day reads all in a week
  strongroom check --new                    only what came since all was checked, for each night
  strongroom check --snapshot latest        only what one snapshot needs
  strongroom check --locks                  only how long snapshots are protected by object lock

Exit code 21 when damage was found; see `strongroom repair --help` for what to do then.
"""

_PATHS_SHOWN = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the extent of the check."""
    parser.add_argument(
        "--read-data",
        metavar="SUBSET",
        nargs="?",
        const="all",
        help="read whole packs: all, a random share (5%%), or one of several parts (3/7)",
    )
    parser.add_argument(
        "--snapshot",
        metavar="ID",
        **REPEATED,
        help="check only what this snapshot needs (`latest` or the beginning of an id)",
    )
    parser.add_argument(
        "--new",
        action="store_true",
        help="leave out packs and listings that a check of the last seven days verified; without "
        "such a check, check everything",
    )
    parser.add_argument(
        "--processes",
        metavar="N",
        type=number(0, 256),
        default=0,
        help="number of checking processes (default: one per core, at most 8)",
    )
    parser.add_argument(
        "--memory",
        metavar="SIZE",
        type=memory,
        default="1G",
        help="memory for blocks that are checked at once; with more blocks, the index is read once "
        "for each part of the listings (default: 1G)",
    )
    parser.add_argument(
        "--locks",
        action="store_true",
        help="show until when object lock protects each snapshot, and what was laid over objects",
    )


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Check; raises CheckFailedError when something is damaged."""
    if arguments.locks:
        return _run_locks(arguments, terminal)
    if arguments.new and arguments.snapshot:
        raise UsageError("--new checks what came to all snapshots; leave out --snapshot")
    subset = None if arguments.read_data is None else parse_subset(arguments.read_data)
    module = "strongroom.engine.check.check"
    with open_repository(arguments, terminal, "read", module=module) as repository:
        from strongroom.engine.check.check import CheckOptions, check

        ids: tuple[str, ...] = ()
        if arguments.snapshot:
            known = repository.snapshots(SetAside())
            ids = tuple(find_snapshot(known, wanted).id for wanted in arguments.snapshot)
        options = CheckOptions(subset, ids, arguments.processes, arguments.new, arguments.memory)
        with show_progress(terminal, "check") as progress:
            report = check(repository, options, progress)
        write_report(report, ObjectOwners(repository), terminal)
    if report.findings:
        count = len(report.findings)
        raise CheckFailedError(
            f"{counted(count, 'object')} damaged; make a copy of the repository if "
            "you can, then run strongroom repair --dry-run"
        )
    return EXIT_DONE


def _run_locks(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Write how long each snapshot is protected; raises CheckFailedError for what is not."""
    if arguments.read_data is not None or arguments.snapshot or arguments.new:
        raise UsageError("--locks looks at all snapshots, and reads no data")
    from strongroom.cli.lock_view import write_protection
    from strongroom.engine.lock.protection import protection

    with open_repository(arguments, terminal, "read") as repository:
        with show_progress(terminal, "check") as progress:
            report = protection(repository, progress)
        write_protection(report, terminal)
        end_with(report.set_aside, repository, terminal)
    return EXIT_DONE


def parse_subset(text: str) -> DataSubset:
    """`all`, `5%` or `3/7`; raises UsageError."""
    from strongroom.engine.check.check import DataSubset

    if text == "all":
        return DataSubset()
    share = re.fullmatch(r"(\d{1,3}(?:\.\d{1,6})?)%", text)
    if share and 0 < float(share.group(1)) <= 100:
        return DataSubset(share=float(share.group(1)) / 100)
    part = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text)
    if part and 1 <= int(part.group(1)) <= int(part.group(2)):
        return DataSubset(number=int(part.group(1)), parts=int(part.group(2)))
    raise UsageError(
        f"--read-data takes all, a share such as 5%, or a part such as 3/7: not {text!r}"
    )


def write_report(report: CheckReport, owners: ObjectOwners, terminal: Terminal) -> None:
    """Write findings, notes and totals."""
    for finding in report.findings:
        _write_finding(finding, owners.client_of(finding.kind, finding.name), terminal)
    for note in report.notes:
        terminal.line(f"note: {note}")
    terminal.emit(
        {
            "type": "check_summary",
            "clean": not report.findings,
            "findings": len(report.findings),
            "snapshots": report.snapshots,
            "pages": report.pages,
            "rows": report.rows,
            "packs": report.packs,
            "blocks": report.blocks,
            "index_objects": report.index_objects,
            "read_packs": report.read_packs,
            "read_bytes": report.read_bytes,
            "complete": utc_text(report.since_ns) if report.since_ns else None,
            "notes": list(report.notes),
            "elapsed_seconds": round(report.elapsed_seconds, 3),
        }
    )
    read = f"; {size_text(report.read_bytes)} read" if report.read_bytes else ""
    terminal.line(
        f"{counted(report.snapshots, 'snapshot')}, {counted(report.pages, 'page')} of "
        f"{counted(report.rows, 'entry')}, {counted(report.packs, 'pack')} of "
        f"{counted(report.blocks, 'block')}{read}; {duration_text(report.elapsed_seconds)}"
    )
    if report.since_ns:
        terminal.line(
            f"checked what came since {local_text(report.since_ns)}, when all was verified"
        )
    if not report.findings:
        terminal.line("no damage found")


def _write_finding(finding: Finding, client: str, terminal: Terminal) -> None:
    terminal.emit(
        {
            "type": "check_finding",
            "kind": finding.kind,
            "name": finding.name,
            "client": client,
            "problem": finding.problem,
            "snapshots": list(finding.snapshots),
            "paths": [shown_path(path) for path in finding.paths],
            "path_count": finding.path_count,
        }
    )
    whose = f" of client {printable(client)}" if client else ""
    terminal.line(f"damaged: {finding.kind}/{finding.name}{whose}")
    terminal.line(f"  {printable(finding.problem)}" if finding.problem else "  files are lost")
    if finding.snapshots:
        names = ", ".join(name[:8] for name in finding.snapshots[:_PATHS_SHOWN])
        more = len(finding.snapshots) - _PATHS_SHOWN
        terminal.line(f"  snapshots: {names}" + (f" and {more} more" if more > 0 else ""))
    if finding.path_count:
        count = finding.path_count
        terminal.line(f"  {counted(count, 'file')} lost:")
        listed = finding.paths if terminal.verbose else finding.paths[:_PATHS_SHOWN]
        for path in listed:
            terminal.line(f"    {printable(shown_path(path))}")
        if len(listed) < count:
            terminal.line(f"    and {count - len(listed)} more")
