"""`strongroom stats`: how much is stored, with deduplication and compression ratios."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from strongroom.cli.access import open_repository
from strongroom.cli.live_progress import show_progress
from strongroom.cli.quantities import size_text
from strongroom.cli.set_aside import end_with
from strongroom.cli.snapshot_choice import SnapshotChoice, add_snapshot_filters
from strongroom.cli.table import Column, write_table
from strongroom.cli.times import time_text
from strongroom.clock import utc_text
from strongroom.errors import EXIT_DONE
from strongroom.jobs.looking.stats import (
    ContentStats,
    RepositoryStats,
    SnapshotStats,
    repository_stats,
    snapshot_stats,
)
from strongroom.printable import printable
from strongroom.repo.set_aside import SetAside
from strongroom.stores.capabilities import found_false

if TYPE_CHECKING:
    import argparse

    from strongroom.cli.terminal import Terminal

EPILOG = """\
examples:
  strongroom stats                       the repository as a whole
  strongroom stats latest --host web1    one snapshot
  strongroom stats --each                every snapshot
  strongroom stats --json | jq .deduplication_ratio

ALONE is what no other snapshot refers to: what forgetting this one and a prune would free.
"""

_COLUMNS = (
    Column("ID"),
    Column("TIME"),
    Column("HOST"),
    Column("FILES", to_the_right=True),
    Column("RESTORES", to_the_right=True),
    Column("DISTINCT", to_the_right=True),
    Column("STORED", to_the_right=True),
    Column("ALONE", to_the_right=True),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the snapshots."""
    parser.add_argument(
        "snapshots",
        metavar="SNAPSHOT",
        nargs="*",
        help="`latest` or the beginning of an id; none: the whole repository",
    )
    parser.add_argument("--each", action="store_true", help="every matching snapshot")
    add_snapshot_filters(parser)


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Show the figures; those of the whole repository need a put key only."""
    if not arguments.snapshots and not arguments.each:
        repository = open_repository(arguments, terminal, "write")
        try:
            set_aside = SetAside(found_false(repository.store))
            _show_repository(repository_stats(repository, set_aside), terminal)
            end_with(set_aside, repository, terminal)
        finally:
            repository.close()
        return EXIT_DONE
    repository = open_repository(arguments, terminal)
    try:
        choice = SnapshotChoice(arguments, repository)
        choice.warn(terminal)
        wanted = [choice.find(name) for name in arguments.snapshots] or choice.snapshots
        with show_progress(terminal, "stats") as progress:
            found = snapshot_stats(repository, wanted, progress, choice.set_aside)
        for stats in found:
            terminal.emit(_snapshot_object(stats))
        write_table(terminal, _COLUMNS, map(_row, found))
        if not arguments.snapshots:
            end_with(choice.set_aside, repository, terminal)
    finally:
        repository.close()
    return EXIT_DONE


def _show_repository(stats: RepositoryStats, terminal: Terminal) -> None:
    terminal.emit(
        {
            "type": "repository_stats",
            **asdict(stats),
            "total_bytes": stats.total_bytes,
            "deduplication_ratio": round(stats.deduplication_ratio, 3),
            "compression_ratio": round(stats.compression_ratio, 3),
        }
    )
    lines = [
        ("snapshots", f"{stats.snapshots}, which restore to {size_text(stats.restore_bytes)}"),
        (
            "content",
            f"{size_text(stats.raw_bytes)} in {stats.chunks} chunks, {stats.blocks} blocks",
        ),
        ("stored", f"{size_text(stats.stored_bytes)} in {stats.data_packs} packs"),
        (
            "listings",
            f"{size_text(stats.listing_stored_bytes)} in {stats.listing_packs} packs",
        ),
        ("deduplication", f"{stats.deduplication_ratio:.2f} : 1"),
        ("compression", f"{stats.compression_ratio:.2f} : 1"),
        ("repository", size_text(stats.total_bytes)),
    ]
    if stats.unverified_snapshots or stats.unverified_packs:
        text = (
            f"{stats.unverified_snapshots} snapshots, {size_text(stats.unverified_bytes)} in "
            f"{stats.unverified_packs} packs: not counted above, see strongroom vouch"
        )
        lines.append(("not verified", text))
    if stats.marked_bytes:
        lines.append(("to be removed", f"{size_text(stats.marked_bytes)} by the next prune"))
    for title, text in lines:
        terminal.line(f"{title:<15}{text}")


def _snapshot_object(stats: SnapshotStats) -> dict[str, object]:
    snapshot = stats.snapshot
    return {
        "type": "snapshot_stats",
        "id": snapshot.id,
        "time": utc_text(snapshot.start_ns),
        "host": snapshot.host,
        "files": stats.files,
        "directories": stats.directories,
        "others": stats.others,
        "restore_bytes": stats.restore_bytes,
        "content": _content_object(stats.content),
        "alone": _content_object(stats.alone),
    }


def _content_object(content: ContentStats) -> dict[str, int]:
    return {
        "chunks": content.chunks,
        "raw_bytes": content.raw_bytes,
        "stored_bytes": content.stored_bytes,
    }


def _row(stats: SnapshotStats) -> list[str]:
    snapshot = stats.snapshot
    return [
        snapshot.short_id,
        time_text(snapshot.start_ns),
        printable(snapshot.host),
        str(stats.files),
        size_text(stats.restore_bytes),
        size_text(stats.content.raw_bytes),
        size_text(stats.content.stored_bytes),
        size_text(stats.alone.stored_bytes),
    ]
