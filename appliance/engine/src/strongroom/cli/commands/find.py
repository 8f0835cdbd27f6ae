"""`strongroom find`: files in snapshots, by name, type, size and time."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from strongroom.base.clock import local_text, utc_text
from strongroom.base.errors import EXIT_DONE, DamageError, UsageError
from strongroom.base.printable import printable
from strongroom.cli.access import add_past_option, open_repository
from strongroom.cli.client.place import add_director_options, asks_director
from strongroom.cli.entry_view import entry_line, entry_object
from strongroom.cli.options import REPEATED, moment, size, words_of
from strongroom.cli.set_aside import end_with
from strongroom.cli.snapshot_choice import (
    SnapshotChoice,
    add_snapshot_filters,
    found_path,
    normal_path,
    shown_path,
)
from strongroom.cli.terminal import Terminal
from strongroom.engine.inspect.find import Criteria, Finder, Match
from strongroom.engine.repository.client_readers import ClientReaders
from strongroom.engine.repository.listing.reader import Listing
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.set_aside import SetAside
from strongroom.engine.repository.snapshots import Snapshot
from strongroom.engine.rows.rows import KINDS

if TYPE_CHECKING:
    from strongroom.cli.client.client import DirectorClient

EPILOG = """\
examples:
  strongroom find '*.docx'
  strongroom find invoice.pdf --show-snapshots --host web1
  strongroom find --regex '/home/[a-z]+/\\.ssh/' --type file
  strongroom find '*.iso' --larger-than 1GiB --newer-than 30d --in latest
  strongroom find /etc/**/*.conf --json | jq -r .path
  strongroom find '*.docx' --host web1 --director vault.example    by the director

Patterns are those of --exclude: without a slash they match names, with one paths.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the criteria."""
    parser.add_argument(
        "patterns", metavar="PATTERN", nargs="*", help="a name or path, with * ? [] and **"
    )
    add = parser.add_argument
    add("--ignore-case", "-i", action="store_true", help="patterns ignore case")
    add(
        "--regex",
        metavar="REGEX",
        type=os.fsencode,
        **REPEATED,
        help="a regular expression that is found in the absolute path",
    )
    add(
        "--type",
        metavar="TYPE[,TYPE]",
        type=words_of(tuple(KINDS)),
        default=(),
        help=f"only these: {', '.join(KINDS)}",
    )
    add("--larger-than", metavar="SIZE", type=size, help="files of more than SIZE (100k, 10M, 2G)")
    add("--smaller-than", metavar="SIZE", type=size, help="files of less than SIZE")
    newer = "modified after TIME: a date, or how long ago (7d)"
    add("--newer-than", metavar="TIME", type=moment, help=newer)
    add("--older-than", metavar="TIME", type=moment, help="modified before TIME")
    below = "only below this folder"
    add("--below", metavar="PATH", type=normal_path, default=b"", help=below)
    add("--in", metavar="SNAPSHOT", dest="only", help="only in this snapshot (`latest`, an id)")
    add(
        "--show-snapshots",
        action="store_true",
        help="each version of a file once, with the snapshots that have it",
    )
    add("-l", "--long", action="store_true", help="mode, links, owner, group, size, time")
    add_snapshot_filters(parser)
    add_past_option(parser)
    add_director_options(parser)


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Search the snapshots, the newest first."""
    criteria = _criteria(arguments)
    if asks_director(arguments):
        from strongroom.cli.client.client import open_director

        with open_director(arguments) as director:
            matches = _found_by_director(arguments, criteria, director, terminal)
            show = _show_versions if arguments.show_snapshots else _show_matches
            show(matches, arguments, terminal)
        return EXIT_DONE
    with open_repository(arguments, terminal, "view") as repository:
        choice = SnapshotChoice(arguments, repository)
        choice.warn(terminal)
        snapshots = choice.snapshots
        if arguments.only is not None:
            snapshots = [choice.find(arguments.only)]
        index = repository.kept_index()
        if snapshots and criteria.below:
            # A damaged one is reported while it is searched.
            with suppress(DamageError):
                newest = repository.snapshot(snapshots[-1].id)
                reader = repository.reader_of(newest, index)
                listing = Listing.of(newest, reader, takes_any_xattrs=True)
                below = found_path(listing, criteria.below, enters=True)
                criteria = msgspec.structs.replace(criteria, below=below)
        finder = Finder(criteria, ClientReaders(repository, index))
        searched = _searched(finder, repository, reversed(snapshots), choice.set_aside)
        if arguments.show_snapshots:
            _show_versions(searched, arguments, terminal)
        else:
            _show_matches(searched, arguments, terminal)
        end_with(choice.set_aside, repository, terminal)
    return EXIT_DONE


def _found_by_director(
    arguments: argparse.Namespace, criteria: Criteria, director: DirectorClient, terminal: Terminal
) -> Iterator[Match]:
    """What the director finds by name, of that what the other criteria want."""
    from strongroom.cli.client.inspect import DirectorSnapshots

    if arguments.regex or arguments.tag or arguments.before is not None:
        raise UsageError("--regex, --tag and --before work without the director only")
    there = DirectorSnapshots(arguments, director, terminal)
    only = None if arguments.only is None else there.find(arguments.only)
    known: dict[str, Snapshot] = {}
    seen: set[tuple[str, bytes]] = set()
    for pattern in arguments.patterns or ["*"]:
        for name, row in there.matches(pattern, criteria, only):
            if name not in known:
                known[name] = there.by_id(name)
            if (name, row.path) not in seen:
                seen.add((name, row.path))
                yield Match(known[name], row)


def _criteria(arguments: argparse.Namespace) -> Criteria:
    patterns = tuple(os.fsencode(pattern) for pattern in arguments.patterns)
    larger, smaller = arguments.larger_than, arguments.smaller_than
    newer_ns, older_ns = arguments.newer_than, arguments.older_than
    return Criteria(
        globs=() if arguments.ignore_case else patterns,
        globs_ignoring_case=patterns if arguments.ignore_case else (),
        regexes=tuple(arguments.regex),
        formats=frozenset(KINDS[name] for name in arguments.type),
        smallest_bytes=None if larger is None else larger + 1,
        largest_bytes=None if smaller is None else smaller - 1,
        earliest_ns=None if newer_ns is None else newer_ns + 1,
        latest_ns=None if older_ns is None else older_ns - 1,
        below=arguments.below,
    )


def _searched(
    finder: Finder, repository: Repository, snapshots: Iterable[Snapshot], set_aside: SetAside
) -> Iterator[Match]:
    for snapshot in snapshots:
        with set_aside.leaving_out("snapshots", snapshot.id):
            yield from finder.search(repository.snapshot(snapshot.id))


def _show_matches(
    matches: Iterable[Match], arguments: argparse.Namespace, terminal: Terminal
) -> None:
    """One line per match, under a heading for each snapshot."""
    last = ""
    count = 0
    for snapshot, row in matches:
        if terminal.as_json:
            terminal.emit({"type": "match", "snapshot": snapshot.id, **entry_object(row)})
            continue
        if snapshot.id != last:
            if last:
                terminal.line("")
            terminal.line(_heading(snapshot))
            last = snapshot.id
        path = shown_path(row.path)
        terminal.line(entry_line(row, path) if arguments.long else printable(path))
        count += 1
    if not count:
        terminal.line("no match")


def _show_versions(
    matches: Iterable[Match], arguments: argparse.Namespace, terminal: Terminal
) -> None:
    """One line per version, and below it the snapshots that contain it; ordered by path."""
    versions: dict[tuple[object, ...], list[Match]] = {}
    for match in matches:
        row = match.row
        key = (
            row.path,
            row.mode,
            row.uid,
            row.gid,
            row.size,
            row.mtime_ns,
            row.target,
            row.parts,
            row.state,
        )
        versions.setdefault(key, []).append(match)
    for found in sorted(versions.values(), key=lambda found: (found[0].row.path, -_start(found))):
        row = found[0].row
        terminal.emit(
            {
                "type": "version",
                **entry_object(row),
                "snapshots": [
                    {
                        "id": match.snapshot.id,
                        "time": utc_text(match.snapshot.start_ns),
                        "host": match.snapshot.host,
                    }
                    for match in found
                ],
            }
        )
        terminal.line(entry_line(row, shown_path(row.path)))
        for match in found:
            terminal.line(f"    in {_heading(match.snapshot)}")
    if not versions:
        terminal.line("no match")


def _start(found: list[Match]) -> int:
    return found[0].snapshot.start_ns


def _heading(snapshot: Snapshot) -> str:
    return f"{snapshot.short_id}  {local_text(snapshot.start_ns)}  {printable(snapshot.host)}"
