"""`strongroom forget`: removes named snapshots, or those that no rule keeps."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from strongroom.base.clock import local_text, utc_text
from strongroom.base.errors import EXIT_DONE, UsageError
from strongroom.base.printable import printable
from strongroom.base.quantities import counted
from strongroom.cli.access import open_repository
from strongroom.cli.commands.prune import (
    PRUNE_MODULE,
    add_prune_options,
    prune_options,
    run_prune,
)
from strongroom.cli.live_progress import show_progress
from strongroom.cli.options import REPEATED, exact_seconds, may_be_empty, words, words_of
from strongroom.cli.snapshot_choice import (
    GROUPED_BY,
    SnapshotChoice,
    add_snapshot_filters,
    shown_path,
)
from strongroom.cli.table import write_table
from strongroom.cli.terminal import Terminal
from strongroom.engine.repository.snapshots import Snapshot

if TYPE_CHECKING:
    from strongroom.engine.prune.forget import ForgetGroup, ForgetOptions, ForgetReport
    from strongroom.engine.prune.retention import Duration, RetentionRules

EPILOG = """\
examples:
  strongroom forget --keep-daily 14 --keep-weekly 8 --keep-monthly 12 --dry-run
  strongroom forget --keep-last 3 --keep-within 30d --keep-tag release --prune
  strongroom forget --host web1 --keep-yearly unlimited --keep-last 1
  strongroom forget 3f1a9c02 b7710d4e         only these

Periods are those of the local time zone; the newest snapshot of each is kept. Rules apply to each
group (--group-by) separately. `strongroom prune`, or --prune, frees the space.
"""

_PERIODS = ("last", "hourly", "daily", "weekly", "monthly", "yearly")
_COLUMNS = ("ACTION", "ID", "TIME", "HOST", "TAGS", "REASON")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the rules, the filters, and the options of prune."""
    parser.add_argument("snapshots", metavar="ID", nargs="*", help="forget these snapshots")
    group = parser.add_argument_group("what to keep")
    for period in _PERIODS:
        what = "newest snapshots" if period == "last" else f"{period} snapshots"
        group.add_argument(
            f"--keep-{period}",
            metavar="N",
            type=_limit,
            default=0,
            help=f"keep the N last {what}, or `unlimited`"
            if period != "last"
            else f"keep the N {what}",
        )
    group.add_argument(
        "--keep-within",
        metavar="DURATION",
        type=_duration,
        help="keep snapshots at most DURATION (36h, 30d, 6m, 1y) older than the newest",
    )
    group.add_argument(
        "--keep-tag",
        metavar="TAG[,TAG]",
        type=words,
        **REPEATED,
        help="keep snapshots that have all these tags; may be given several times",
    )
    group.add_argument(
        "--minimum-retention",
        metavar="DURATION",
        type=exact_seconds,
        default=0,
        help="keep snapshots received less than DURATION ago, even if named (default: none; "
        "`strongroom schedule`, pools and storage daemons have 7 days)",
    )
    group.add_argument(
        "--group-by",
        metavar="WHAT[,WHAT]",
        type=may_be_empty(words_of(GROUPED_BY)),
        default="host,paths",
        help="apply the rules to each group separately: host, paths, tags, job, or several of "
        "them; '' for one group (default: host,paths)",
    )
    group.add_argument(
        "--allow-remove-all",
        action="store_true",
        help="allow rules that keep no snapshot of a group",
    )
    add_snapshot_filters(parser)
    parser.add_argument(
        "-n",
        "--dry-run",
        action="store_true",
        help="list what would be forgotten, and why the others are kept",
    )
    parser.add_argument("--prune", action="store_true", help="prune afterwards")
    add_prune_options(parser)


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Forget, report why others are kept, and prune if requested."""
    from strongroom.engine.prune.forget import forget

    pruning = prune_options(arguments)
    rules = _rules(arguments)
    if arguments.snapshots and not rules.is_empty:
        raise UsageError("name snapshots or state rules, not both")
    module = PRUNE_MODULE if arguments.prune else ""
    with open_repository(arguments, terminal, "read", module=module) as repository:
        choice = SnapshotChoice(arguments, repository, anew=True)
        choice.warn(terminal)
        named = [choice.find_to_forget(wanted) for wanted in arguments.snapshots]
        options = _options(arguments, rules, named, choice)
        with show_progress(terminal, "forget") as progress:
            report = forget(repository, named or choice.snapshots, options, progress)
        if not arguments.dry_run:
            choice.forgotten(one.id for group in report.groups for one in group.removed)
        _write_report(report, terminal)
        if report.refused and (named or not report.removed_count):
            raise report.refused[0]
        if arguments.prune and not arguments.dry_run:
            run_prune(repository, pruning, terminal)
    if not named:
        choice.set_aside.require_none()
    return EXIT_DONE


def _rules(arguments: argparse.Namespace) -> RetentionRules:
    from strongroom.engine.prune.retention import RetentionRules

    return RetentionRules(
        **{period: getattr(arguments, f"keep_{period}") for period in _PERIODS},
        within=arguments.keep_within,
        tags=tuple(map(frozenset, arguments.keep_tag)),
    )


def _duration(text: str) -> Duration:
    from strongroom.engine.prune.retention import parse_duration

    return parse_duration(text)


def _limit(text: str) -> int:
    from strongroom.engine.prune.retention import UNLIMITED

    if text == "unlimited":
        return UNLIMITED
    if not text.isdecimal() or len(text) > 9:
        raise UsageError(f"{text!r}: write a number, or `unlimited`")
    return int(text)


def _options(
    arguments: argparse.Namespace,
    rules: RetentionRules,
    named: list[Snapshot],
    choice: SnapshotChoice,
) -> ForgetOptions:
    from strongroom.engine.prune.forget import ForgetOptions

    return ForgetOptions(
        rules=rules,
        group_by=arguments.group_by,
        snapshot_ids=tuple(one.id for one in named),
        allow_remove_all=arguments.allow_remove_all,
        minimum_retention_seconds=arguments.minimum_retention,
        false=frozenset(one.id for one in choice.false) | frozenset(choice.undecodable),
        dry_run=arguments.dry_run,
    )


def _write_report(report: ForgetReport, terminal: Terminal) -> None:
    for group in report.groups:
        _write_group(group, report, terminal)
    would = "would be " if report.dry_run else ""
    terminal.emit(
        {
            "type": "forget_summary",
            "dry_run": report.dry_run,
            "forgotten": report.removed_count,
            "kept": report.kept_count,
        }
    )
    terminal.line(
        f"{counted(report.removed_count, 'snapshot')} {would}forgotten, {report.kept_count} kept"
    )


def _write_group(group: ForgetGroup, report: ForgetReport, terminal: Terminal) -> None:
    from strongroom.engine.prune.forget import group_text

    if group.key and (len(report.groups) > 1 or report.dry_run):
        terminal.line(group_text(group.key))
    for judged in group.judged:
        snapshot = judged.snapshot
        terminal.emit(
            {
                "type": "forget",
                "id": snapshot.id,
                "time": utc_text(snapshot.start_ns),
                "host": snapshot.host,
                "job": snapshot.job,
                "tags": list(snapshot.tags),
                "paths": [shown_path(path) for path in snapshot.paths],
                "forgotten": not judged.reasons,
                "reasons": list(judged.reasons),
                "dry_run": report.dry_run,
            }
        )
    listed = group.judged
    if not (report.dry_run or terminal.verbose):
        listed = tuple(judged for judged in group.judged if not judged.reasons)
    write_table(
        terminal,
        _COLUMNS,
        [
            (
                "keep" if judged.reasons else "forget",
                judged.snapshot.short_id,
                local_text(judged.snapshot.start_ns),
                printable(judged.snapshot.host),
                printable(",".join(judged.snapshot.tags)),
                "; ".join(judged.reasons),
            )
            for judged in listed
        ],
    )
    if listed:
        terminal.line()
