"""`strongroom stats`: how much is stored, with deduplication and compression ratios."""

from __future__ import annotations

import argparse

import msgspec

from strongroom.base.clock import local_text, utc_text
from strongroom.base.errors import EXIT_DONE
from strongroom.base.printable import printable
from strongroom.base.quantities import counted, size_text
from strongroom.cli.access import open_repository
from strongroom.cli.live_progress import show_progress
from strongroom.cli.set_aside import end_with
from strongroom.cli.snapshot_choice import SnapshotChoice, add_snapshot_filters
from strongroom.cli.table import write_table
from strongroom.cli.terminal import JsonObject, Terminal
from strongroom.engine.inspect.stats import (
    ContentStats,
    RepositoryStats,
    SnapshotStats,
    repository_stats,
    snapshot_stats,
)
from strongroom.engine.repository.set_aside import SetAside
from strongroom.engine.stores.capabilities import found_false

EPILOG = """\
examples:
  strongroom stats                       the repository as a whole
  strongroom stats latest --host web1    one snapshot
  strongroom stats --each                every snapshot
  strongroom stats --json | jq .deduplication_ratio

UNIQUE is what no other snapshot refers to: what forgetting this one and a prune would free.
"""

_COLUMNS = ("ID", "TIME", "HOST", ">FILES", ">RESTORE SIZE", ">DEDUPLICATED", ">STORED", ">UNIQUE")


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
        with open_repository(arguments, terminal, "write") as repository:
            set_aside = SetAside(found_false(repository.store))
            _show_repository(repository_stats(repository, set_aside), terminal)
            end_with(set_aside, repository, terminal)
        return EXIT_DONE
    with open_repository(arguments, terminal) as repository:
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
    return EXIT_DONE


def _show_repository(stats: RepositoryStats, terminal: Terminal) -> None:
    terminal.emit(
        {
            "type": "repository_stats",
            **msgspec.structs.asdict(stats),
            "total_bytes": stats.total_bytes,
            "deduplication_ratio": round(stats.deduplication_ratio, 3),
            "compression_ratio": round(stats.compression_ratio, 3),
        }
    )
    chunks = f"{counted(stats.chunks, 'chunk')}, {counted(stats.blocks, 'block')}"
    lines = [
        ("snapshots", f"{stats.snapshots:,}, restore size {size_text(stats.restore_bytes)}"),
        ("content", f"{size_text(stats.raw_bytes)} in {chunks}"),
        ("stored", f"{size_text(stats.stored_bytes)} in {counted(stats.data_packs, 'pack')}"),
        (
            "listings",
            f"{size_text(stats.listing_stored_bytes)} in {counted(stats.listing_packs, 'pack')}",
        ),
        ("deduplication", f"{stats.deduplication_ratio:.2f} : 1"),
        ("compression", f"{stats.compression_ratio:.2f} : 1"),
        ("repository", size_text(stats.total_bytes)),
    ]
    if stats.unverified_snapshots or stats.unverified_packs:
        text = (
            f"{counted(stats.unverified_snapshots, 'snapshot')}, "
            f"{size_text(stats.unverified_bytes)} in {counted(stats.unverified_packs, 'pack')}: "
            "not verified yet and not counted above, see strongroom vouch"
        )
        lines.append(("not verified", text))
    if stats.marked_bytes:
        lines.append(("to be removed", f"{size_text(stats.marked_bytes)} by the next prune"))
    for title, text in lines:
        terminal.line(f"{title:<15}{text}")


def _snapshot_object(stats: SnapshotStats) -> JsonObject:
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
        local_text(snapshot.start_ns),
        printable(snapshot.host),
        str(stats.files),
        size_text(stats.restore_bytes),
        size_text(stats.content.raw_bytes),
        size_text(stats.content.stored_bytes),
        size_text(stats.alone.stored_bytes),
    ]
