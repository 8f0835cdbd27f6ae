"""`strongroom lock`: extends object lock for what snapshots still use."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from strongroom.base.clock import local_text, utc_text
from strongroom.base.errors import EXIT_DONE, CheckFailedError
from strongroom.base.quantities import counted, duration_text, size_text
from strongroom.cli.access import open_repository
from strongroom.cli.live_progress import show_progress
from strongroom.cli.lock_view import write_tampering
from strongroom.cli.terminal import Terminal

if TYPE_CHECKING:
    from strongroom.engine.lock.extension import ExtensionReport

EPILOG = """\
examples:
  strongroom lock --repo s3://my-bucket/web1
  strongroom lock --dry-run                  what would be extended
  strongroom check --locks                   how long each snapshot is protected

For a repository that was made with `init --lock-for DURATION`. Run it every day: what is not
deleted and has less than half of DURATION left gets all of it again. Exit code 21 when somebody
stored newer versions of locked objects.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add `--dry-run` and `--if-locked`."""
    parser.add_argument(
        "-n", "--dry-run", action="store_true", help="show what would be done, change nothing"
    )
    parser.add_argument(
        "--if-locked",
        action="store_true",
        help="do nothing for a repository without object lock, instead of failing",
    )


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Extend locks and write the report."""
    module = "strongroom.engine.lock.extension"
    with open_repository(arguments, terminal, "write", module=module) as repository:
        from strongroom.engine.lock.extension import extend_locks
        from strongroom.engine.lock.objects import require_own_rule

        require_own_rule(repository)
        if arguments.if_locked and repository.config.lock_rule is None:
            terminal.detail("the repository has no object lock")
            return EXIT_DONE
        with show_progress(terminal, "lock") as progress:
            report = extend_locks(repository, progress, dry_run=arguments.dry_run)
    _write_report(report, terminal)
    if report.overlaid:
        raise CheckFailedError(
            f"{counted(len(report.overlaid), 'object')} changed by somebody, which Strongroom "
            "never does: change the access key, and restore as of a time before that (strongroom "
            "restore --at TIME)"
        )
    return EXIT_DONE


def _write_report(report: ExtensionReport, terminal: Terminal) -> None:
    until_ns = report.locked_until_ns
    terminal.emit(
        {
            "type": "lock",
            "dry_run": report.dry_run,
            "objects": report.objects,
            "asked": report.asked,
            "extended": report.extended,
            "extended_bytes": report.extended_bytes,
            "locked_until": utc_text(until_ns) if until_ns else None,
            "overlaid": [f"{kind}/{name}" for kind, name in report.overlaid],
            "elapsed_seconds": round(report.elapsed_seconds, 3),
        }
    )
    would = "would be extended" if report.dry_run else "extended"
    terminal.line(
        f"locks of {counted(report.extended, 'object')} ({size_text(report.extended_bytes)}) "
        f"{would} in {duration_text(report.elapsed_seconds)}"
    )
    until = f" until {local_text(until_ns)} or longer" if until_ns else ""
    terminal.line(f"{counted(report.objects, 'object')} locked{until}")
    terminal.detail(f"{counted(report.asked, 'object')} asked for")
    write_tampering(report.overlaid, (), terminal)
