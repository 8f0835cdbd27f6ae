"""`strongroom copy`: copy snapshots of another repository into this one."""

from __future__ import annotations

import argparse
import platform
from typing import TYPE_CHECKING

from strongroom.base.clock import local_text
from strongroom.base.errors import EXIT_DONE
from strongroom.base.printable import printable
from strongroom.base.quantities import size_text
from strongroom.cli.access import open_place, open_repository
from strongroom.cli.live_progress import show_progress
from strongroom.cli.options import moment
from strongroom.cli.set_aside import end_with
from strongroom.cli.settings import Settings
from strongroom.cli.snapshot_choice import SnapshotChoice, add_snapshot_filters
from strongroom.cli.terminal import Terminal
from strongroom.engine.knobs.table import default_word
from strongroom.engine.repository.snapshots import Snapshot

if TYPE_CHECKING:
    from strongroom.engine.copy.copy import CopiedSnapshot

EPILOG = """\
examples:
  strongroom copy --repo /mnt/usb/repository --from-repo /mnt/backup/repository
  strongroom copy latest --host web1 --from-repo /mnt/backup/repository
  strongroom copy --from-repo /mnt/backup/repository --from-password-file /root/other --dry-run

Copies only what is missing, so it can be repeated. Chunk boundaries of files over 512 KiB depend on
a secret of each repository: these files deduplicate among copies, not with backups made here.
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
    add(
        "--from-at",
        metavar="TIME",
        type=moment,
        help="copy from it as it was at TIME; see `restore --at`",
    )
    usual = default_word("compression")
    add("--compression", metavar="CODEC", default=usual, help=f"as for backup (default: {usual})")
    add("-n", "--dry-run", action="store_true", help="only list what would be copied")
    add_snapshot_filters(parser)


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Copy, the oldest snapshot first; each is complete when its line is printed."""
    from strongroom.engine.content.codecs import parse_compression
    from strongroom.engine.copy.copy import CopyOptions, copy_snapshots, to_be_copied

    options = CopyOptions(platform.node(), parse_compression(arguments.compression))
    at_ns = arguments.from_at
    if at_ns is not None:
        # What is remembered of the source is of the present.
        arguments.settings = arguments.settings._replace(cache_folder=None)
    settings = _source_settings(arguments)
    with open_place(arguments.from_repo, settings, terminal, "read", at_ns=at_ns) as source:
        with open_repository(arguments, terminal, "write") as target:
            choice = SnapshotChoice(arguments, source)
            choice.warn(terminal)
            wanted = [choice.find(name) for name in arguments.snapshots] or choice.snapshots
            count = 0
            missing, present = to_be_copied(source, target, wanted)
            for snapshot, _ in present:
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
        if not arguments.snapshots or not (arguments.dry_run or count == len(missing)):
            end_with(choice.set_aside, source, terminal)
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
    return f"{snapshot.short_id}  {local_text(snapshot.start_ns)}  {printable(snapshot.host)}"
