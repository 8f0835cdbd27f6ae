"""`strongroom diff`: the differences between two snapshots."""

from __future__ import annotations

import argparse
import stat
from collections.abc import Iterable

from strongroom.base.clock import local_text
from strongroom.base.errors import EXIT_DONE
from strongroom.base.printable import printable
from strongroom.base.quantities import size_text
from strongroom.cli.access import add_past_option, open_repository
from strongroom.cli.client.place import add_director_options, asks_director
from strongroom.cli.entry_view import entry_object
from strongroom.cli.snapshot_choice import (
    SnapshotChoice,
    add_snapshot_filters,
    found_path,
    normal_path,
    shown_path,
)
from strongroom.cli.terminal import Terminal
from strongroom.engine.inspect.diff import (
    ADDED,
    METADATA,
    MODIFIED,
    REMOVED,
    TYPE,
    Difference,
    SnapshotComparison,
)
from strongroom.engine.repository.client_readers import ClientReaders
from strongroom.engine.repository.listing.reader import Listing
from strongroom.engine.repository.snapshots import Snapshot
from strongroom.engine.rows.rows import kind_name
from strongroom.engine.rows.views import RowView

EPILOG = """\
examples:
  strongroom diff 3f2a91c0 latest
  strongroom diff 3f2a91c0 8c11d0aa /etc --content-only
  strongroom diff 3f2a91c0 latest --json | jq -r 'select(.change == "removed") | .path'
  strongroom diff 3f2a91c0 latest --host web1 --director vault.example    by the director

Before each path: + added, - removed, M content modified, U only metadata changed, T another type.
"""

_SIGNS = {ADDED: "+", REMOVED: "-", MODIFIED: "M", METADATA: "U", TYPE: "T"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the two snapshots."""
    parser.add_argument("older", metavar="BEFORE", help="the snapshot to compare from")
    parser.add_argument("newer", metavar="AFTER", help="the snapshot to compare with")
    parser.add_argument(
        "folder",
        metavar="PATH",
        nargs="?",
        type=normal_path,
        default=b"",
        help="only below this folder",
    )
    parser.add_argument(
        "--content-only", action="store_true", help="leave out entries that differ in metadata only"
    )
    add_snapshot_filters(parser)
    add_past_option(parser)
    add_director_options(parser)


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Write the differences, then how many there are; exit code 0 whether there are any or not."""
    if asks_director(arguments):
        from strongroom.cli.client.client import open_director
        from strongroom.cli.client.inspect import DirectorSnapshots

        with open_director(arguments) as director:
            there = DirectorSnapshots(arguments, director, terminal)
            before, after = there.find(arguments.older), there.find(arguments.newer)
            found = there.differences(before, after, arguments.folder)
            _show_all(before, after, found, arguments, terminal)
        return EXIT_DONE
    with open_repository(arguments, terminal, "view") as repository:
        choice = SnapshotChoice(arguments, repository)
        before = repository.snapshot(choice.find(arguments.older).id)
        after = repository.snapshot(choice.find(arguments.newer).id)
        index = repository.kept_index()
        listing = Listing.of(after, repository.reader_of(after, index), takes_any_xattrs=True)
        folder = found_path(listing, arguments.folder, enters=True)
        readers = ClientReaders(repository, index)
        comparison = SnapshotComparison(readers, before, after)
        _show_all(before, after, comparison.differences(folder), arguments, terminal)
    return EXIT_DONE


def _show_all(
    before: Snapshot,
    after: Snapshot,
    differences: Iterable[Difference],
    arguments: argparse.Namespace,
    terminal: Terminal,
) -> None:
    for sign, snapshot in (("-", before), ("+", after)):
        terminal.line(
            f"{sign * 3} {snapshot.short_id}  {local_text(snapshot.start_ns)}  "
            f"{printable(snapshot.host)}"
        )
    counts = dict.fromkeys(_SIGNS, 0)
    sizes = dict.fromkeys(_SIGNS, 0)
    for difference in differences:
        if arguments.content_only and difference.kind == METADATA:
            continue
        counts[difference.kind] += 1
        sizes[difference.kind] += _size(difference.after) or _size(difference.before)
        _show(difference, terminal)
    _show_totals(counts, sizes, terminal)


def _show(difference: Difference, terminal: Terminal) -> None:
    if terminal.as_json:
        sides = (("before", difference.before), ("after", difference.after))
        terminal.emit(
            {
                "type": "difference",
                "change": difference.kind,
                "path": shown_path(difference.path),
                "what": list(difference.what),
                **{name: None if row is None else entry_object(row) for name, row in sides},
            }
        )
        return
    detail = _detail(difference)
    text = f"{_SIGNS[difference.kind]}  {printable(shown_path(difference.path))}"
    terminal.line(f"{text}  ({detail})" if detail else text)


def _detail(difference: Difference) -> str:
    before, after = difference.before, difference.after
    if before is None or after is None:
        row = after or before
        is_file = row is not None and stat.S_ISREG(row.mode)
        return size_text(row.size) if is_file and row is not None else ""
    if difference.kind == TYPE:
        return f"{kind_name(before.mode)} -> {kind_name(after.mode)}"
    return ", ".join(_change(name, before, after) for name in difference.what if name != "size")


def _change(name: str, before: RowView, after: RowView) -> str:
    """The differences, with both values where they are short."""
    if name == "content" and before.size != after.size:
        grown = after.size - before.size
        return f"content {'+' if grown > 0 else '-'}{size_text(abs(grown))}"
    if name == "mode":
        return f"mode {stat.S_IMODE(before.mode):04o} -> {stat.S_IMODE(after.mode):04o}"
    if name == "owner":
        return f"owner {before.uid} -> {after.uid}"
    if name == "group":
        return f"group {before.gid} -> {after.gid}"
    if name == "target":
        return f"target {printable(before.target)} -> {printable(after.target)}"
    return name


def _size(row: RowView | None) -> int:
    return row.size if row is not None and stat.S_ISREG(row.mode) else 0


def _show_totals(counts: dict[str, int], sizes: dict[str, int], terminal: Terminal) -> None:
    terminal.emit(
        {
            "type": "summary",
            **counts,
            **{f"{kind}_bytes": sizes[kind] for kind in (ADDED, REMOVED, MODIFIED)},
        }
    )
    parts = [
        f"{counts[kind]} {words}{f' ({size_text(sizes[kind])})' if sizes[kind] else ''}"
        for kind, words in (
            (ADDED, "added"),
            (REMOVED, "removed"),
            (MODIFIED, "modified"),
            (TYPE, "of another type"),
        )
    ]
    parts.append(f"{counts[METADATA]} with other metadata")
    terminal.line(", ".join(parts))
