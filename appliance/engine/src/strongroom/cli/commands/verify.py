"""`strongroom verify`: compare a snapshot with the live files."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

import msgspec

from strongroom.base.errors import EXIT_DONE, CheckFailedError
from strongroom.base.quantities import counted, duration_text, size_text
from strongroom.cli.access import open_repository
from strongroom.cli.entry_lines import VerifyLines
from strongroom.cli.live_progress import show_progress
from strongroom.cli.options import add_patterns, number, patterns_of
from strongroom.cli.snapshot_choice import (
    SnapshotPath,
    add_snapshot_filters,
    at_place,
    chosen_snapshot,
    snapshot_path,
)
from strongroom.cli.terminal import Terminal

if TYPE_CHECKING:
    from strongroom.engine.verify.options import VerifyOptions, VerifyReport

EPILOG = """\
examples:
  strongroom verify latest                                 against / , metadata only
  strongroom verify latest:/home/ann --read-data --host web1
  strongroom verify 3f2a91c0 --against /tmp/back           a tree restored with --target /tmp/back
  strongroom verify latest --signatures --exclude '*.log'

Without --read-data or --signatures content is not read: changes are detected by size and mtime.
Exit code 21: differences were found, one per line: KIND, path, what differs.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the snapshot, the tree and what to compare."""
    parser.add_argument(
        "snapshot",
        metavar="SNAPSHOT[:SUBPATH]",
        type=snapshot_path,
        nargs="?",
        default="latest",
        help="`latest` (the default) or the beginning of an id; with a path only that",
    )
    add_snapshot_filters(parser)
    parser.add_argument(
        "--against",
        metavar="FOLDER",
        help="the tree restored with --target FOLDER, not the live files",
    )
    parser.add_argument("--read-data", action="store_true", help="read files, compare every chunk")
    parser.add_argument("--signatures", action="store_true",
                        help="read files that have a signature, compare that")  # fmt: skip
    parser.add_argument("--from-disk", action="store_true",
                        help="bypass the kernel's page cache")  # fmt: skip
    parser.add_argument("--no-extra", action="store_true",
                        help="do not look for additional entries")  # fmt: skip
    add_patterns(parser, "include")
    add_patterns(parser, "exclude")
    parser.add_argument("--workers", type=number(0, 256), default=0, metavar="N",
                        help="processes that compare; 0: choose for me")  # fmt: skip


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Compare; CheckFailedError when something differs."""
    options = _options(arguments)
    module = "strongroom.engine.verify.verify"
    with open_repository(arguments, terminal, module=module) as repository:
        place: SnapshotPath = arguments.snapshot
        snapshot = chosen_snapshot(arguments, repository, terminal, place.snapshot)
        from strongroom.engine.verify.verify import verify

        def compare(path: bytes) -> VerifyReport:
            wanted, lines = _at(options, path), VerifyLines(terminal)
            return verify(
                repository, snapshot, wanted, lambda: show_progress(terminal, "verify"), lines
            )

        path, report = at_place(place, repository, snapshot, compare)
        options = _at(options, path)
    terminal.emit(report.summary(snapshot.id, options))
    seconds = max(report.elapsed_seconds, 1e-3)
    found = sum(report.differences.values())
    terminal.line(
        f"{counted(report.rows, 'entry')} compared, {size_text(report.read_bytes)} read, "
        f"{duration_text(seconds)}{'' if found else ': no differences'}"
    )
    for note in report.notes():
        terminal.line(note)
    if found:
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(report.differences.items()))
        raise CheckFailedError(f"{counted(found, 'difference')} ({kinds}); each is listed above")
    return EXIT_DONE


def _at(options: VerifyOptions, path: bytes) -> VerifyOptions:
    return msgspec.structs.replace(options, subpath=path, base=path if options.base else b"")


def _options(arguments: argparse.Namespace) -> VerifyOptions:
    from strongroom.engine.verify.options import VerifyOptions

    subpath = arguments.snapshot.inside
    is_restored = arguments.against is not None
    return VerifyOptions(
        root=os.path.abspath(os.fsencode(arguments.against)) if is_restored else b"/",
        base=subpath if is_restored else b"",
        subpath=subpath,
        includes=patterns_of(arguments, "include"),
        excludes=patterns_of(arguments, "exclude"),
        reads_content=arguments.read_data,
        reads_signatures=arguments.signatures,
        from_disk=arguments.from_disk,
        finds_extra=not arguments.no_extra,
        processes=arguments.workers,
    )
