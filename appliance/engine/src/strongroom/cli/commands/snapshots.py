"""`strongroom snapshots`: the snapshots of a repository, as a table."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from strongroom.base.clock import local_text
from strongroom.base.errors import EXIT_DONE, UsageError
from strongroom.base.printable import printable
from strongroom.base.quantities import counted, size_text
from strongroom.cli.access import add_past_option, open_repository
from strongroom.cli.client.place import add_director_options, asks_director
from strongroom.cli.options import may_be_empty, number, words_of
from strongroom.cli.snapshot_choice import (
    GROUPED_BY,
    SnapshotChoice,
    add_snapshot_filters,
    shown_path,
    snapshot_object,
)
from strongroom.cli.table import write_table
from strongroom.cli.terminal import JsonObject, Terminal
from strongroom.engine.repository.snapshots import Snapshot

if TYPE_CHECKING:
    from strongroom.engine.prune.forget import GroupKey

EPILOG = """\
examples:
  strongroom snapshots
  strongroom snapshots latest                               one, by its id or the newest
  strongroom snapshots --host web1 --tag daily --latest 3
  strongroom snapshots --group-by host,paths --latest 1     the newest of each host and paths
  strongroom snapshots --json | jq -r '.[].id'

A put key is enough to list snapshots, not to list their files. With --director, or where no
repository is named and console.toml names a director, snapshots of all its clients are listed from
its catalog, which does not know their paths.
"""

_COLUMNS = ("ID", "TIME", "HOST", "JOB", "LEVEL", ">FILES", ">SIZE", ">ERRORS", "TAGS", "PATHS")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the snapshot, the filters, `--latest` and `--group-by`."""
    parser.set_defaults(lists=True)
    parser.add_argument(
        "snapshot", nargs="?", metavar="SNAPSHOT", help="only this one: an id, or latest"
    )
    add_snapshot_filters(parser)
    add_past_option(parser)
    add_director_options(parser)
    parser.add_argument(
        "--latest",
        metavar="N",
        type=number(1),
        help="only the newest N (of each group, if grouped)",
    )
    parser.add_argument(
        "--group-by",
        metavar="WHAT[,WHAT]",
        type=may_be_empty(words_of(GROUPED_BY)),
        default=(),
        help=f"group by {', '.join(GROUPED_BY)}, or several of them",
    )


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Write the table, one for each group."""
    parts = arguments.group_by
    if arguments.snapshot is not None and (arguments.latest is not None or parts):
        raise UsageError("one snapshot goes without --latest and --group-by")
    if asks_director(arguments):
        from strongroom.cli.client.client import open_director
        from strongroom.cli.client.inspect import DirectorSnapshots

        with open_director(arguments) as director:
            there = DirectorSnapshots(arguments, director, terminal)
            wanted = arguments.snapshot
            chosen = there.all() if wanted is None else [there.find(wanted)]
        counts = arguments.snapshot is None
        _show(
            chosen, parts, arguments.latest, there.false, there.object_of, terminal, counts=counts
        )
        return EXIT_DONE
    with open_repository(arguments, terminal, "write") as repository:
        choice = SnapshotChoice(arguments, repository)
    false = {one.id for one in choice.false}

    def object_of(snapshot: Snapshot) -> JsonObject:
        return snapshot_object(snapshot, is_false=snapshot.id in false)

    if arguments.snapshot is not None:
        # The error of `latest` says most of what the warnings do.
        found = choice.find(arguments.snapshot)
        choice.warn(terminal)
        _show([found], parts, None, false, object_of, terminal, counts=False)
        return EXIT_DONE
    choice.warn(terminal)
    everything = sorted(choice.snapshots + choice.false, key=lambda one: one.start_ns)
    _show(everything, parts, arguments.latest, false, object_of, terminal, counts=True)
    for name in choice.undecodable:
        terminal.emit({"type": "false_snapshot", "id": name})
        terminal.line(f"{name} is false, and does not decode; forget it")
    choice.set_aside.require_none()
    return EXIT_DONE


def _show(
    snapshots: list[Snapshot],
    parts: Sequence[str],
    latest: int | None,
    false: set[str],
    object_of: Callable[[Snapshot], JsonObject],
    terminal: Terminal,
    *,
    counts: bool,
) -> None:
    """A table for each group, of the newest `latest` of it; counts: and how many there are."""
    from strongroom.engine.prune.forget import GROUP_PARTS, group_text

    groups: dict[GroupKey, list[Snapshot]] = {}
    for snapshot in snapshots:
        key = tuple((part, GROUP_PARTS[part](snapshot)) for part in parts)
        groups.setdefault(key, []).append(snapshot)
    count = 0
    for key in sorted(groups, key=repr):
        chosen = groups[key][-latest:] if latest else groups[key]
        if count:
            terminal.line()
        count += len(chosen)
        if parts:
            terminal.line(group_text(key))
        for snapshot in chosen:
            terminal.emit(object_of(snapshot))
        write_table(terminal, _COLUMNS, [_row(one, false) for one in chosen])
    if counts:
        of = f" in {counted(len(groups), 'group')}" if parts else ""
        terminal.line(f"{counted(count, 'snapshot')}{of}")


def _row(snapshot: Snapshot, false: set[str]) -> list[str]:
    return [
        snapshot.short_id,
        local_text(snapshot.start_ns),
        printable(snapshot.host),
        printable(snapshot.job),
        snapshot.level,
        str(snapshot.totals.files),
        size_text(snapshot.totals.content_bytes),
        "false" if snapshot.id in false else str(snapshot.error_count or ""),
        printable(",".join(snapshot.tags)),
        " ".join(printable(shown_path(path)) for path in snapshot.paths),
    ]
