"""`strongroom prune`: frees the space that no snapshot uses."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from strongroom.base.clock import local_text
from strongroom.base.errors import EXIT_DONE
from strongroom.base.printable import printable
from strongroom.base.quantities import counted, duration_text, size_text
from strongroom.cli.access import open_repository
from strongroom.cli.live_progress import show_progress
from strongroom.cli.options import exact_seconds, memory, number, share
from strongroom.cli.set_aside import end_with
from strongroom.cli.terminal import Terminal
from strongroom.engine.repository.repository import Repository

if TYPE_CHECKING:
    from strongroom.engine.prune.prune_options import PruneOptions, PruneReport

PRUNE_MODULE = "strongroom.engine.prune.prune"

EPILOG = """\
examples:
  strongroom prune
  strongroom prune --dry-run                 how much would be freed
  strongroom prune --max-unused 0            free everything, whatever it costs to copy
  strongroom prune --repack-below 50%        copy less, leave more unused

Runs beside backups: packs they may still refer to are marked now and removed by a later prune.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of thoroughness, and `--dry-run`."""
    add_prune_options(parser)
    parser.add_argument(
        "-n", "--dry-run", action="store_true", help="show what would be done, change nothing"
    )


def add_prune_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that forget --prune takes as well."""
    group = parser.add_argument_group("pruning")
    group.add_argument(
        "--repack-below",
        metavar="SHARE",
        type=share,
        default="80%",
        help="repack packs of which less than SHARE is used (default: 80%%)",
    )
    group.add_argument(
        "--max-unused",
        metavar="SHARE",
        type=share,
        default="5%",
        help="leave up to SHARE of the used size unused (default: 5%%)",
    )
    group.add_argument(
        "--grace",
        metavar="DURATION",
        type=exact_seconds,
        help="keep marked packs this long for readers (default: 0 if no other job "
        "runs, else an hour)",
    )
    group.add_argument(
        "--threads",
        metavar="N",
        type=number(0, 256),
        default=0,
        help="copying threads (default: one per core, at most 8)",
    )
    group.add_argument(
        "--memory",
        metavar="SIZE",
        type=memory,
        default="1G",
        help="memory for blocks that are counted at once; with more blocks, index and listings are "
        "read once for each part (default: 1G)",
    )
    group.add_argument(
        "--recount",
        action="store_true",
        help="read and count everything, also when nothing went since the last prune and all that "
        "came is in use",
    )


def prune_options(arguments: argparse.Namespace) -> PruneOptions:
    """The options as the user gave them."""
    from strongroom.engine.prune.prune_options import PruneOptions

    return PruneOptions(
        repack_below=arguments.repack_below,
        max_unused=arguments.max_unused,
        grace_seconds=arguments.grace,
        threads=arguments.threads,
        dry_run=arguments.dry_run,
        recount=arguments.recount,
        memory_bytes=arguments.memory,
    )


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Prune and print the report."""
    options = prune_options(arguments)
    with open_repository(arguments, terminal, "read", module=PRUNE_MODULE) as repository:
        run_prune(repository, options, terminal)
    return EXIT_DONE


def run_prune(repository: Repository, options: PruneOptions, terminal: Terminal) -> None:
    """Prune an open repository and write the report. SetAsideError if a snapshot was left out."""
    from strongroom.engine.prune.prune import prune

    with show_progress(terminal, "prune") as progress:
        report = prune(repository, options, progress)
    terminal.emit(report.summary())
    _write_report(report, terminal)
    end_with(report.set_aside, repository, terminal)


def _write_report(report: PruneReport, terminal: Terminal) -> None:
    from strongroom.engine.prune.prune_options import REMEDY

    used, unused = size_text(report.used_bytes), size_text(report.unused_bytes)
    terminal.line(
        f"{counted(report.snapshots, 'snapshot')} in {counted(report.packs, 'pack')} "
        f"({size_text(report.pack_bytes)}): {used} used, {unused} unused"
    )
    orphans = f", {report.orphan_packs} of them never indexed" if report.orphan_packs else ""
    would = "would be " if report.dry_run else ""
    terminal.detail(f"{counted(report.unused_packs, 'pack')} without anything used{orphans}")
    if report.repacked_packs:
        terminal.line(
            f"{counted(report.repacked_packs, 'partly used pack')} {would}copied into "
            f"{size_text(report.repacked_bytes)}"
        )
    terminal.line(
        f"{counted(report.removed_packs, 'pack')} {would}removed, "
        f"{size_text(max(0, report.freed_bytes))} {would}freed"
        + ("" if report.dry_run else f" in {duration_text(report.elapsed_seconds)}")
    )
    if report.counted_ns:
        since = local_text(report.counted_ns)
        terminal.line(
            f"nothing went since {since}, and what came is in use; count again with --recount"
        )
    if report.recount == "different":
        terminal.warn(
            "an earlier prune found nothing to do with the same objects; report this, unless two "
            "backups of one client ran at once"
        )
    if report.kept_packs:
        terminal.line(f"{counted(report.kept_packs, 'marked pack')} kept: in use again")
    if report.temporary_files:
        terminal.detail(f"{counted(report.temporary_files, 'abandoned temporary file')} removed")
    if report.waiting_packs:
        terminal.line(
            f"{counted(report.waiting_packs, 'pack')} marked, to be removed by a later prune; "
            "waiting for:"
        )
        for reason in report.waiting_for:
            terminal.line(f"  {printable(reason)}")
    if report.hidden is not None and report.hidden.locked:
        terminal.line(
            f"{counted(report.hidden.locked, 'deleted object')} "
            f"({size_text(report.hidden.locked_bytes)}) locked, the last one until "
            f"{local_text(report.hidden.until_ns)}; a later prune frees this space"
        )
    if report.spared_packs:
        terminal.line(
            f"{counted(report.spared_packs, 'pack')} ({size_text(report.spared_bytes)}) without "
            "anything used stay, as they are newer than a job that runs:"
        )
        for one in report.holdups:
            terminal.line(f"  {printable(one.text)}")
    if any(one.is_long for one in report.holdups):
        terminal.warn(REMEDY)
