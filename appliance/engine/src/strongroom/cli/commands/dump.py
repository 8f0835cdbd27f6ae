"""`strongroom dump`: a file of a snapshot, or a folder as a tar archive, to standard output."""

from __future__ import annotations

import argparse
import codecs
import stat

from strongroom.base.errors import (
    EXIT_DONE,
    EXIT_INCOMPLETE,
    PathNotFoundError,
    SourceError,
    UsageError,
)
from strongroom.base.printable import printable
from strongroom.cli.access import add_past_option, open_repository
from strongroom.cli.snapshot_choice import (
    add_snapshot_filters,
    chosen_snapshot,
    found_path,
    normal_path,
    shown_path,
    snapshot_path,
)
from strongroom.cli.terminal import Terminal
from strongroom.engine.inspect.file_content import FileContent, PartReader
from strongroom.engine.repository.listing.reader import Listing
from strongroom.engine.rows.rows import UNREADABLE
from strongroom.engine.rows.views import RowView

EPILOG = """\
examples:
  strongroom dump latest /etc/fstab
  strongroom dump latest:/home/ann/photo.jpg > photo.jpg
  strongroom dump latest /srv/db.sql --host db1 | psql app
  strongroom dump latest /etc | tar -x -C /tmp/etc         /tmp/etc/passwd, as restore does it
  strongroom dump latest / | zstd > all.tar.zst

A file is written as it is. What is in a folder is written as a tar archive (POSIX format, with
extended attributes and hard links; sparse files with zeros), its names relative to the folder.
A terminal gets text only; nothing else is written to it. The repository itself is read: a director
hands out no content, it restores to a client (`strongroom restore --client`).

Exit code 3: an archive lacks files that the backup could not read; each was named.
Exit code 15: the snapshot has no such path. Exit code 20: the output ends at damaged content.
Use `set -o pipefail`, so that a script notices.
"""

_PIECE_BYTES = 1 << 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the snapshot and the path."""
    parser.add_argument(
        "snapshot",
        metavar="SNAPSHOT[:PATH]",
        type=snapshot_path,
        help="`latest` or the beginning of an id",
    )
    # `path` is the filter --path.
    parser.add_argument(
        "inside", metavar="PATH", nargs="?", help="a file or folder in it; / is all"
    )
    add_snapshot_filters(parser)
    add_past_option(parser)


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Write it; PathNotFoundError for a path that the snapshot does not have."""
    name, given = arguments.snapshot
    if given is not None and arguments.inside is not None:
        raise UsageError(f"{name}:{given} names a path already; give one or the other")
    typed: str | None = arguments.inside if given is None else given
    if typed is None:
        raise UsageError("name what to dump: SNAPSHOT PATH; / is everything, as an archive")
    if terminal.as_json:
        raise UsageError("dump writes the file itself, which is not JSON; leave out --json")
    path = normal_path(typed)
    with open_repository(arguments, terminal, "view") as repository:
        snapshot = chosen_snapshot(arguments, repository, terminal, name)
        reader = repository.reader_of(snapshot, repository.kept_index())
        listing = Listing.of(snapshot, reader)
        path = found_path(listing, path, enters=typed.endswith("/"))
        row = listing.lookup(path)
        if path and row is None:
            raise PathNotFoundError(
                f"the snapshot has no {printable(shown_path(path))}; list it with strongroom ls"
            )
        if row is None or stat.S_ISDIR(row.mode):
            return _dump_folder(listing, path, reader, terminal)
        _dump_file(row, reader, terminal)
    return EXIT_DONE


def _dump_folder(listing: Listing, path: bytes, reader: PartReader, terminal: Terminal) -> int:
    from strongroom.engine.inspect.archive import write_archive

    shown = printable(shown_path(path))
    if terminal.shows_output:
        raise UsageError(
            f"{shown} is a folder, and a terminal cannot show an archive: redirect it to a file, "
            "or to `tar -x -C FOLDER`"
        )
    left_out = 0

    def leave_out(gone: bytes, why: str) -> None:
        nonlocal left_out
        left_out += 1
        terminal.warn(f"{printable(shown_path(gone))}: {why}")

    row = listing.lookup(path)
    if row is not None and row.state == UNREADABLE:
        leave_out(path, "the backup could not list it, so the archive is empty")
    with terminal.raw_output() as output:
        write_archive(output, listing, path, reader, leave_out)
    return EXIT_INCOMPLETE if left_out else EXIT_DONE


def _dump_file(row: RowView, reader: PartReader, terminal: Terminal) -> None:
    from strongroom.engine.inspect.file_content import FileContent

    shown = printable(shown_path(row.path))
    if stat.S_ISLNK(row.mode):
        raise UsageError(f"{shown} is a link to {printable(row.target)}; dump what it points to")
    if not stat.S_ISREG(row.mode):
        raise UsageError(f"{shown} is neither a file nor a folder, so there is nothing to dump")
    if row.state == UNREADABLE:
        raise SourceError(
            f"{shown}: the backup could not read it, so the snapshot lacks its content"
        )
    content = FileContent(row, reader)
    if terminal.shows_output:
        _show_text(content, shown, terminal)
        return
    with terminal.raw_output() as output:
        for offset in range(0, content.size, _PIECE_BYTES):
            output.write(content.read(offset, _PIECE_BYTES))


def _show_text(content: FileContent, shown: str, terminal: Terminal) -> None:
    """To a terminal, with control characters escaped. UsageError at what is not text."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    for offset in range(0, content.size, _PIECE_BYTES):
        piece = content.read(offset, _PIECE_BYTES)
        is_last = offset + len(piece) >= content.size
        try:
            text = decoder.decode(piece, final=is_last)
        except UnicodeDecodeError:
            text = "\0"
        if "\0" in text:
            raise UsageError(
                f"{shown} is not text, which a terminal cannot show: redirect it to a file"
            )
        terminal.document(text)
