"""`strongroom ls`: the files of a snapshot."""

from __future__ import annotations

import argparse
import stat
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from strongroom.base.errors import EXIT_DONE, PathNotFoundError, UsageError
from strongroom.base.printable import printable
from strongroom.cli.access import add_past_option, open_repository
from strongroom.cli.client.place import add_director_options, asks_director
from strongroom.cli.entry_view import entry_line, entry_object
from strongroom.cli.snapshot_choice import (
    add_snapshot_filters,
    chosen_snapshot,
    found_path,
    normal_path,
    shown_path,
    snapshot_path,
)
from strongroom.cli.terminal import Terminal
from strongroom.engine.repository.listing.reader import Listing
from strongroom.engine.repository.snapshots import Snapshot
from strongroom.engine.rows.rows import UNREADABLE, Rows, slice_rows
from strongroom.engine.rows.views import RowView, join_path, views

if TYPE_CHECKING:
    from strongroom.cli.client.client import DirectorClient

EPILOG = """\
examples:
  strongroom ls                                the top of the newest snapshot
  strongroom ls latest /home/ann -l --host web1
  strongroom ls latest:/home/ann               the same place, written as restore takes it
  strongroom ls 3f2a91c0 /etc --recursive
  strongroom ls latest /etc --host web1 --director vault.example    of any client, by the director
  strongroom ls latest / -R --json | jq -r 'select(.kind == "file") | .path'
"""


_LINES_AT_ONCE = 1000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the snapshot, the paths and the format."""
    parser.add_argument(
        "snapshot",
        metavar="SNAPSHOT[:PATH]",
        type=snapshot_path,
        nargs="?",
        default="latest",
        help="`latest` (the default) or the beginning of an id",
    )
    parser.add_argument("paths", metavar="PATH", nargs="*", help="what to list (default: /)")
    parser.add_argument(
        "-l", "--long", action="store_true", help="mode, links, owner, group, size, time"
    )
    parser.add_argument(
        "-R", "--recursive", action="store_true", help="everything below, with whole paths"
    )
    parser.add_argument("--human", action="store_true", help="with -l, sizes as KiB, MiB, GiB")
    add_snapshot_filters(parser)
    add_past_option(parser)
    add_director_options(parser)


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """List; PathNotFoundError for a path that the snapshot does not hold."""
    name, inside = arguments.snapshot
    if inside is not None and arguments.paths:
        raise UsageError(f"{name}:{inside} names a path already; give one or the other")
    paths = arguments.paths or [inside or "/"]
    if asks_director(arguments):
        from strongroom.cli.client.client import open_director

        with open_director(arguments) as director:
            _list_by_director(arguments, director, name, paths, terminal)
        return EXIT_DONE
    with open_repository(arguments, terminal, "view") as repository:
        snapshot = chosen_snapshot(arguments, repository, terminal, name)
        reader = repository.reader_of(snapshot, repository.kept_index())
        listing = Listing.of(snapshot, reader, takes_any_xattrs=True)
        for number, path in enumerate(paths):
            wanted = found_path(listing, normal_path(path), enters=path.endswith("/"))
            whole = arguments.recursive
            if len(paths) > 1 and not whole:
                _head(number, wanted, terminal)
            if (above := listing.lookup(wanted)) is not None:
                _warn_of_unread([above], terminal)
            for rows in _found(listing, wanted, recursive=whole):
                if rows.states and not (arguments.long or terminal.as_json):
                    _warn_of_unread(_entries(rows), terminal)
                with_paths = whole or rows.directory != wanted
                if arguments.long or terminal.as_json:
                    _show(_entries(rows), snapshot, with_paths, arguments, terminal)
                    continue
                prefix = shown_path(join_path(rows.directory, b"")) if with_paths else b""
                lines = [printable(prefix + name) for name in rows.name_list() if name]
                # Writing single lines would take longer than reading the listing.
                if lines:
                    terminal.lines(lines)
    return EXIT_DONE


def _list_by_director(
    arguments: argparse.Namespace,
    director: DirectorClient,
    name: str,
    paths: list[str],
    terminal: Terminal,
) -> None:
    from strongroom.cli.client.inspect import DirectorSnapshots, require_entries

    there = DirectorSnapshots(arguments, director, terminal)
    snapshot = there.find(name)
    for number, path in enumerate(paths):
        wanted = normal_path(path)
        if len(paths) > 1 and not arguments.recursive:
            _head(number, wanted, terminal)
        read = there.below if arguments.recursive else there.entries
        rows = require_entries(read(snapshot, wanted), wanted)
        while batch := list(islice(rows, _LINES_AT_ONCE)):
            if not (arguments.long or terminal.as_json):
                _warn_of_unread(batch, terminal)
            # A path that leads through links comes as what it leads to.
            whole = arguments.recursive or (batch[0].path == wanted)
            _show(batch, snapshot, whole, arguments, terminal)


def _head(number: int, path: bytes, terminal: Terminal) -> None:
    if number:
        terminal.line()
    terminal.line(f"{printable(shown_path(path))}:")


def _show(
    rows: Iterable[RowView],
    snapshot: Snapshot,
    with_paths: bool,
    arguments: argparse.Namespace,
    terminal: Terminal,
) -> None:
    if terminal.as_json:
        for row in rows:
            terminal.emit({"type": "entry", "snapshot": snapshot.id, **entry_object(row)})
        return
    lines = []
    for row in rows:
        shown = shown_path(row.path) if with_paths else row.name
        is_long = arguments.long
        lines.append(entry_line(row, shown, human=arguments.human) if is_long else printable(shown))
    if lines:
        terminal.lines(lines)


def _warn_of_unread(rows: Iterable[RowView], terminal: Terminal) -> None:
    """Say of which folders the snapshot does not know what is in them."""
    for row in rows:
        if row.state == UNREADABLE and stat.S_ISDIR(row.mode):
            text = f"{printable(shown_path(row.path))}: the backup could not list this folder"
            terminal.emit({"type": "warning", "message": text})
            terminal.warn(text)


def _found(listing: Listing, path: bytes, *, recursive: bool) -> Iterator[Rows]:
    """The rows to show for a path: the entries of a directory, or the entry itself."""
    row = listing.lookup(path)
    if row is None and path:
        raise PathNotFoundError(f"the snapshot has no {printable(shown_path(path))}")
    if row is not None and not stat.S_ISDIR(row.mode):
        itself = next(listing.directory_from(row.directory, row.name))
        yield slice_rows(itself, 0, 1)
    elif recursive:
        yield from listing.rows(path)
    else:
        yield from listing.directory(path)


def _entries(rows: Rows) -> Iterator[RowView]:
    """The rows without the root's own, which has no name."""
    return (row for row in views(rows) if row.name)
