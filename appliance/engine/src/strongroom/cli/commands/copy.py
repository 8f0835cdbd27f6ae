"""`strongroom copy`: copy snapshots of another repository into this one."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING

from strongroom.cli.access import open_place, open_repository
from strongroom.cli.live_progress import show_progress
from strongroom.cli.quantities import size_text
from strongroom.cli.set_aside import end_with
from strongroom.cli.snapshot_choice import SnapshotChoice, add_snapshot_filters
from strongroom.cli.times import time_text
from strongroom.errors import EXIT_DONE
from strongroom.knobs.table import default_word
from strongroom.printable import printable

if TYPE_CHECKING:
    import argparse

    from strongroom.cli.settings import Settings
    from strongroom.cli.terminal import Terminal
    from strongroom.jobs.copy.copy import CopiedSnapshot
    from strongroom.repo.snapshots import Snapshot

EPILOG = """\
examples:
  strongroom copy --repo /mnt/usb/repository --from-repo /mnt/backup/repository
  strongroom copy latest --host web1 --from-repo /mnt/backup/repository
  strongroom copy --from-repo /mnt/backup/repository --from-password-file /root/other --dry-run

Copies only what is missing, so it can be repeated. Chunk boundaries of files over 512 KiB depend on
a secret of each repository: these files deduplicate among copies, not with own backups.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the other repository and the snapshots."""
    add = parser.add_argument
    add(
        "snapshots",
        metavar="SNAPSHOT",
        nargs="*",
        help="`latest` or the beginning of an id; none: every matching snapshot",
    )
    add("--from-repo", metavar="PLACE", required=True, help="the repository to copy from")
    add(
        "--from-password-file",
        metavar="FILE",
        help="its passphrase; default: the passphrase of --repo",
    )
    add("--from-password-command", metavar="COMMAND", help="a command that prints its passphrase")
    add("--from-key-file", metavar="FILE", help="its exported restore key")
    usual = default_word("compression")
    add("--compression", metavar="CODEC", default=usual, help=f"as for backup (default: {usual})")
    add("-n", "--dry-run", action="store_true", help="only list what would be copied")
    add_snapshot_filters(parser)


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Copy, the oldest snapshot first; each is complete when its line is printed."""
    from strongroom.content.codecs import parse_compression
    from strongroom.jobs.copy.copy import CopyOptions, copy_snapshots, to_be_copied

    options = CopyOptions(platform.node(), parse_compression(arguments.compression))
    source = open_place(arguments.from_repo, _source_settings(arguments), terminal, "read")
    try:
        target = open_repository(arguments, terminal, "write")
        try:
            choice = SnapshotChoice(arguments, source)
            choice.warn(terminal)
            wanted = [choice.find(name) for name in arguments.snapshots] or choice.snapshots
            count = 0
            missing, present = to_be_copied(source, target, wanted)
            for snapshot in present:
                terminal.emit({"type": "skipped", "id": snapshot.id})
                terminal.detail(f"{_title(snapshot)} is there already")
            if arguments.dry_run:
                _show_plan(missing, terminal)
            else:
                with show_progress(terminal, "copy") as progress:
                    for copied in copy_snapshots(
                        source, target, missing, options, progress, choice.set_aside
                    ):
                        count += 1
                        _show(copied, terminal)
            done = f"{len(missing)} to be copied" if arguments.dry_run else f"{count} copied"
            terminal.line(f"{done}, {len(present)} there already")
        finally:
            target.close()
        if not arguments.snapshots or not (arguments.dry_run or count == len(missing)):
            end_with(choice.set_aside, source, terminal)
    finally:
        source.close()
    return EXIT_DONE


def _source_settings(arguments: argparse.Namespace) -> Settings:
    settings: Settings = arguments.settings
    stated = (
        arguments.from_password_file,
        arguments.from_password_command,
        arguments.from_key_file,
    )
    if not any(stated):
        return settings._replace(key_file=None)
    return settings._replace(
        password=None,
        password_file=arguments.from_password_file,
        password_command=arguments.from_password_command,
        key_file=arguments.from_key_file,
    )


def _show_plan(missing: list[Snapshot], terminal: Terminal) -> None:
    for snapshot in missing:
        terminal.emit({"type": "planned", "id": snapshot.id})
        terminal.line(_title(snapshot))


def _show(copied: CopiedSnapshot, terminal: Terminal) -> None:
    terminal.emit(
        {
            "type": "copied",
            "id": copied.copy.id,
            "original_id": copied.original.id,
            "original": copied.copy.original,
            "read_bytes": copied.read_bytes,
            "new_bytes": copied.new_bytes,
            "stored_bytes": copied.stored_bytes,
        }
    )
    terminal.line(
        f"{_title(copied.original)} -> {copied.copy.short_id}  read "
        f"{size_text(copied.read_bytes)}, new {size_text(copied.new_bytes)}, stored "
        f"{size_text(copied.stored_bytes)}"
    )


def _title(snapshot: Snapshot) -> str:
    return f"{snapshot.short_id}  {time_text(snapshot.start_ns)}  {printable(snapshot.host)}"
