"""`strongroom rewrite`: drop paths from snapshots, or give them to another client."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from strongroom.base.clock import local_text
from strongroom.base.errors import EXIT_DONE, UsageError
from strongroom.base.printable import printable
from strongroom.base.quantities import counted, size_text
from strongroom.cli.access import open_repository
from strongroom.cli.live_progress import show_progress
from strongroom.cli.options import add_patterns, patterns_of, stored_text
from strongroom.cli.set_aside import end_with
from strongroom.cli.snapshot_choice import SnapshotChoice, add_snapshot_filters
from strongroom.cli.terminal import Terminal

if TYPE_CHECKING:
    from strongroom.engine.copy.rewrite import Changes, Replaced

EPILOG = """\
examples:
  strongroom rewrite --exclude /home/ann/secret.txt --forget
  strongroom rewrite 3f2a91c0 --exclude '*.iso' --dry-run
  strongroom rewrite --host web1 --new-host web2

A new snapshot is made of each that changes. Without --forget the old one stays, and the new one has
the tag `rewrite`. --forget and `strongroom prune` free the space; of small files that are stored in
one block with others some may stay, encrypted and named nowhere, until that block is repacked. A
storage daemon keeps the old snapshot until its Minimum Retention has passed (exit code 36).

--new-host reads and checks the content and stores it again under the keys of that client, which may
then restore it.

Patterns are those of `backup --exclude`.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the snapshots, what to drop, and the new client."""
    group = parser.add_argument_group("what to change")
    add_patterns(group, "exclude", "drop what matches, with all that is in it", files=True)
    group.add_argument("--new-host", metavar="NAME", default="", type=stored_text,
                       help="the client's new name")  # fmt: skip
    group.add_argument("--forget", action="store_true", help="remove the old snapshots")
    add_choice(parser)


def add_choice(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose what is replaced."""
    parser.add_argument(
        "snapshots",
        metavar="SNAPSHOT",
        nargs="*",
        help="`latest` or the beginning of an id; none: every matching snapshot",
    )
    add_snapshot_filters(parser)
    parser.add_argument("-n", "--dry-run", action="store_true", help="only list what would change")


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Replace the snapshots that change."""
    from strongroom.engine.copy.rewrite import Changes

    excludes = patterns_of(arguments, "exclude")
    if excludes is None and not arguments.new_host:
        raise UsageError("say what to drop (--exclude PATTERN), or give --new-host")
    changes = Changes(excludes=excludes, host=arguments.new_host, forget=arguments.forget)
    return replace_chosen(arguments, terminal, changes)


def replace_chosen(arguments: argparse.Namespace, terminal: Terminal, changes: Changes) -> int:
    """Replace the chosen snapshots, the oldest first; each is done when its line is printed."""
    from strongroom.engine.copy.rewrite import replace_snapshots

    repository = open_repository(arguments, terminal, "read")
    count = 0
    refused = None
    try:
        choice = SnapshotChoice(arguments, repository)
        choice.warn(terminal)
        named = [choice.find(wanted) for wanted in arguments.snapshots]
        wanted = list({one.id: one for one in named or choice.snapshots}.values())
        with show_progress(terminal, "rewrite") as progress:
            for replaced in replace_snapshots(
                repository, wanted, changes, progress, dry_run=arguments.dry_run
            ):
                count += 1
                refused = refused or replaced.refused
                if changes.forget and replaced.new is not None:
                    choice.forgotten([replaced.old.id])
                _show(replaced, changes, terminal)
        would = "would be " if arguments.dry_run else ""
        done = would + ("replaced" if changes.forget else "written")
        terminal.line(f"{counted(count, 'snapshot')} {done}, {len(wanted) - count} unchanged")
        if refused is not None:
            raise refused
        if not arguments.snapshots:
            end_with(choice.set_aside, repository, terminal)
    finally:
        repository.close()
    return EXIT_DONE


def _show(replaced: Replaced, changes: Changes, terminal: Terminal) -> None:
    old, new = replaced.old, replaced.new
    terminal.emit(
        {
            "type": "replaced",
            "id": new.id if new is not None else None,
            "replaces": old.id,
            "host": new.host if new is not None else changes.host or old.host,
            "tags": list(replaced.tags),
            "dropped_files": replaced.dropped_files,
            "dropped_bytes": replaced.dropped_bytes,
            "forgotten": changes.forget and new is not None and replaced.refused is None,
            "dry_run": new is None,
        }
    )
    what = [f"tags: {', '.join(replaced.tags) or '(none)'}"]
    if changes.host:
        what.append(f"host: {changes.host}")
    if changes.excludes is not None:
        what.append(
            f"dropped {counted(replaced.dropped_files, 'file')}, "
            f"{size_text(replaced.dropped_bytes)}"
        )
    arrow = "" if new is None else f" -> {new.short_id}"
    terminal.line(
        f"{old.short_id}{arrow}  {local_text(old.start_ns)}  {printable(old.host)}  "
        f"{printable('; '.join(what))}"
    )
