"""`strongroom ls`: the files of a snapshot."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

from strongroom.cli.access import open_repository
from strongroom.cli.entry_view import entry_line, entry_object
from strongroom.cli.snapshot_choice import (
    add_snapshot_filters,
    chosen_snapshot,
    normal_path,
    shown_path,
)
from strongroom.cli.terminal import shown
from strongroom.errors import EXIT_DONE, SourceError
from strongroom.repo.listing_reader import Listing
from strongroom.scan.row_view import views

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from strongroom.cli.terminal import Terminal
    from strongroom.scan.row_view import RowView

EPILOG = """\
examples:
  strongroom ls                                the top of the newest snapshot
  strongroom ls latest /home/ann -l --host web1
  strongroom ls 3f2a91c0 /etc --recursive
  strongroom ls latest / -R --json | jq -r 'select(.kind == "file") | .path'
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the snapshot, the paths and the form."""
    parser.add_argument(
        "snapshot",
        metavar="SNAPSHOT",
        nargs="?",
        default="latest",
        help="`latest` (the default) or the beginning of an id",
    )
    parser.add_argument(
        "paths", metavar="PATH", nargs="*", default=["/"], help="what to list (default: /)"
    )
    parser.add_argument(
        "-l", "--long", action="store_true", help="mode, links, owner, group, size, time"
    )
    parser.add_argument(
        "-R", "--recursive", action="store_true", help="everything below, with whole paths"
    )
    parser.add_argument("--human", action="store_true", help="with -l, sizes as KiB, MiB, GiB")
    add_snapshot_filters(parser)


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """List; SourceError for a path that the snapshot does not hold."""
    repository = open_repository(arguments, terminal)
    try:
        snapshot = chosen_snapshot(arguments, repository, arguments.snapshot)
        listing = Listing(snapshot.pages, repository.block_reader(repository.load_index()))
        for number, path in enumerate(arguments.paths):
            wanted = normal_path(path)
            whole = arguments.recursive
            if len(arguments.paths) > 1 and not whole:
                terminal.line(f"{'' if number == 0 else chr(10)}{shown(shown_path(wanted))}:")
            for row in _rows(listing, wanted, recursive=whole):
                if terminal.as_json:
                    terminal.emit({"type": "entry", "snapshot": snapshot.id, **entry_object(row)})
                    continue
                name = shown_path(row.path) if whole or row.path == wanted else row.name
                if arguments.long:
                    terminal.line(entry_line(row, name, human=arguments.human))
                else:
                    terminal.line(shown(name))
    finally:
        repository.close()
    return EXIT_DONE


def _rows(listing: Listing, path: bytes, *, recursive: bool) -> Iterator[RowView]:
    """What to show for a path: what is in it, or itself where it is no directory."""
    row = listing.lookup(path)
    if row is not None and not stat.S_ISDIR(row.mode):
        yield row
        return
    if row is None and path:
        raise SourceError(f"the snapshot holds no {shown(shown_path(path))}")
    for rows in listing.rows(path) if recursive else listing.directory(path):
        for found in views(rows):
            # The root's own row stands in the root, with no name.
            if found.path != path:
                yield found
