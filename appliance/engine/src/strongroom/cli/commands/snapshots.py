"""`strongroom snapshots`: the snapshots of a repository, as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strongroom.cli.access import open_repository
from strongroom.cli.quantities import size_text
from strongroom.cli.snapshot_choice import (
    SnapshotChoice,
    add_snapshot_filters,
    shown_path,
    snapshot_object,
)
from strongroom.cli.table import Column, write_table
from strongroom.cli.times import time_text
from strongroom.errors import EXIT_DONE, UsageError
from strongroom.printable import printable

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from strongroom.cli.terminal import Terminal
    from strongroom.repo.snapshots import Snapshot

EPILOG = """\
examples:
  strongroom snapshots
  strongroom snapshots --host web1 --tag daily --latest 3
  strongroom snapshots --group-by host,paths --latest 1     the newest of each host and paths
  strongroom snapshots --json | jq -r .id

A put key is enough to list snapshots, not to list their files.
"""

_COLUMNS = (
    Column("ID"),
    Column("TIME"),
    Column("HOST"),
    Column("JOB"),
    Column("LEVEL"),
    Column("FILES", to_the_right=True),
    Column("SIZE", to_the_right=True),
    Column("ERRORS", to_the_right=True),
    Column("TAGS"),
    Column("PATHS"),
)
_GROUP_PARTS: dict[str, Callable[[Snapshot], tuple[str | bytes, ...]]] = {
    "host": lambda snapshot: (snapshot.host,),
    "job": lambda snapshot: (snapshot.job,),
    "tags": lambda snapshot: snapshot.tags,
    "paths": lambda snapshot: tuple(shown_path(path) for path in snapshot.paths),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the filters, `--latest` and `--group-by`."""
    add_snapshot_filters(parser)
    parser.add_argument(
        "--latest", metavar="N", type=int, help="only the newest N (of each group, if grouped)"
    )
    parser.add_argument(
        "--group-by",
        metavar="WHAT[,WHAT]",
        default="",
        help=f"group by {', '.join(_GROUP_PARTS)}, or several of them",
    )


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Write the table, one for each group."""
    parts = _group_parts(arguments.group_by)
    if arguments.latest is not None and arguments.latest < 1:
        raise UsageError("--latest needs a number from 1 on")
    repository = open_repository(arguments, terminal, "write")
    try:
        choice = SnapshotChoice(arguments, repository)
    finally:
        repository.close()
    choice.warn(terminal)
    false = {one.id for one in choice.false}
    groups: dict[tuple[tuple[str | bytes, ...], ...], list[Snapshot]] = {}
    for snapshot in sorted(choice.snapshots + choice.false, key=lambda one: one.start_ns):
        key = tuple(_GROUP_PARTS[part](snapshot) for part in parts)
        groups.setdefault(key, []).append(snapshot)
    count = 0
    for key in sorted(groups, key=repr):
        chosen = groups[key][-arguments.latest :] if arguments.latest else groups[key]
        if count:
            terminal.line()
        count += len(chosen)
        if parts:
            terminal.line(_group_title(parts, key))
        for snapshot in chosen:
            terminal.emit(snapshot_object(snapshot, is_false=snapshot.id in false))
        write_table(terminal, _COLUMNS, [_row(one, false) for one in chosen])
    of = f" in {_counted(len(groups), 'group')}" if parts else ""
    terminal.line(f"{_counted(count, 'snapshot')}{of}")
    for name in choice.undecodable:
        terminal.emit({"type": "false_snapshot", "id": name})
        terminal.line(f"{name} is false, and does not decode; forget it")
    choice.set_aside.require_none()
    return EXIT_DONE


def _counted(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"


def _group_parts(text: str) -> list[str]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    for part in parts:
        if part not in _GROUP_PARTS:
            raise UsageError(f"cannot group by {printable(part)}; use {', '.join(_GROUP_PARTS)}")
    return parts


def _group_title(parts: list[str], key: tuple[tuple[str | bytes, ...], ...]) -> str:
    return ", ".join(
        f"{part} {' '.join(map(printable, values)) or '(none)'}"
        for part, values in zip(parts, key, strict=True)
    )


def _row(snapshot: Snapshot, false: set[str]) -> list[str]:
    return [
        snapshot.short_id,
        time_text(snapshot.start_ns),
        printable(snapshot.host),
        printable(snapshot.job),
        snapshot.level,
        str(snapshot.totals.files),
        size_text(snapshot.totals.content_bytes),
        "false" if snapshot.id in false else str(snapshot.error_count or ""),
        printable(",".join(snapshot.tags)),
        " ".join(printable(shown_path(path)) for path in snapshot.paths),
    ]
