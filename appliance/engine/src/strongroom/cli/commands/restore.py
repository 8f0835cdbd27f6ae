"""`strongroom restore`: restore files from a snapshot."""

from __future__ import annotations

import argparse
import os
import socket
from typing import TYPE_CHECKING

import msgspec

from strongroom.base.clock import local_text
from strongroom.base.errors import (
    EXIT_DONE,
    EXIT_INCOMPLETE,
    DamageError,
    PathNotFoundError,
    UsageError,
)
from strongroom.base.printable import printable
from strongroom.base.quantities import counted, duration_text, size_text
from strongroom.cli.access import add_past_option, open_repository
from strongroom.cli.client.restore import (
    add_restore_options,
    goes_through_director,
    restore_through_director,
)
from strongroom.cli.entry_lines import RestoreLines
from strongroom.cli.live_progress import show_progress
from strongroom.cli.options import add_patterns, number, patterns_of
from strongroom.cli.snapshot_choice import (
    SnapshotPath,
    add_snapshot_filters,
    at_place,
    chosen_snapshot,
    shown_path,
    snapshot_path,
)
from strongroom.cli.terminal import Terminal
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.set_aside import SetAside
from strongroom.engine.repository.snapshots import Snapshot, is_made_with_restore_key
from strongroom.engine.rows.left_out import is_in_folders
from strongroom.engine.rows.views import join_path, split_path

if TYPE_CHECKING:
    from strongroom.engine.restore.options import RestoreOptions, RestoreReport
    from strongroom.engine.verify.options import VerifyReport

EPILOG = """\
examples:
  strongroom restore latest --target /tmp/back
  strongroom restore latest:/home/ann/docs --target /tmp/docs --host web1
  strongroom restore 3f2a91c0 --target /tmp/back --include '*.odt' --exclude /home/ann/old
  strongroom restore latest:/etc --in-place --dry-run --verbose
  strongroom restore latest:/srv --in-place --overwrite always --delete --verify
  strongroom restore latest:/etc --host web1 --client web2 --target /tmp/etc
  strongroom restore latest --host web1 --target /mnt/new-root --keep-privileges

latest:/etc --target /t restores what is in /etc right into /t (/t/passwd). Without SUBPATH
everything keeps its whole path below the target (/t/etc/passwd), also what --include chooses.
With --in-place everything is restored to its original path.

With --client or --director the director makes an agent restore, by the same rules: SNAPSHOT is
looked up in its catalog, --host is the client that was backed up, and `strongroom browse` lets you
choose several files interactively.

--overwrite decides about existing entries:
  always      compare content, write what differs
  if-changed  the same, but take files of equal size and mtime as equal (the default)
  if-newer    only where the snapshot's entry is newer
  never       only create what is missing
Large files are changed in place, only where they differ; others are replaced.
A target that exists keeps its mode, owner and attributes.
Below a target, and in place on another host than the one backed up, set-id bits, device nodes, file
capabilities and trusted attributes are left out: a program that ran as root there could do so here.
They are named and counted; --keep-privileges restores them too (through the director only with
that command in the Command ACL). They are restored without it when root restores below an empty
target, from a repository opened with its passphrase, a snapshot that was made with it or on this
host: that is a whole system from a rescue medium.
--delete removes what the snapshot does not contain, in directories that were backed up. What the
backup left out stays: excluded entries, folders that it did not enter or could not list, sockets,
other mounts than that of the path restored. So do the repository, its cache and this program.
Snapshots of older versions do not say what was left out: with them nothing is removed.

Exit code 3: done, but not everything could be restored or set; failures are counted by kind.
Exit code 20: the same, and the stored content of some files is damaged or missing; each is named.
Exit code 15: the snapshot has no such SUBPATH. Exit code 16: no --include matches anything.
"""

_MEANINGS = {
    "content": "the stored content is damaged or missing",
    "unread": "not in the snapshot, because the backup could not read it",
    "entry": "could not be made",
    "link": "could not be linked",
    "delete": "could not be removed",
    "owner": "owner or group could not be set",
    "mode": "mode could not be set as it was",
    "times": "times could not be set",
    "acl": "ACLs could not be set",
    "xattr": "extended attributes could not be set",
    "flags": "chattr flags could not be set",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the snapshot, the target and the options."""
    parser.add_argument(
        "snapshot",
        metavar="SNAPSHOT[:SUBPATH]",
        type=snapshot_path,
        help="`latest` or the beginning of an id; with a path only that file or directory",
    )
    add_snapshot_filters(parser)
    add_past_option(parser)
    place = parser.add_argument_group("where to")
    target = place.add_mutually_exclusive_group(required=True)
    target.add_argument("-t", "--target", metavar="FOLDER", help="created when it is missing")
    target.add_argument("--in-place", action="store_true", help="to the original paths, below /")
    what = parser.add_argument_group("what")
    include = "only entries that match (several: any of them), and their content"
    add_patterns(what, "include", include)
    add_patterns(what, "exclude", "not entries that match, nor their content")
    how = parser.add_argument_group("how")
    how.add_argument(
        "--overwrite",
        choices=("always", "if-changed", "if-newer", "never"),
        help="what happens to existing entries (default: if-changed; through the director as "
        "set by Replace of the Restore job)",
    )
    how.add_argument(
        "--delete", action="store_true", help="remove what the snapshot does not contain"
    )
    how.add_argument(
        "--keep-privileges",
        action="store_true",
        help="also set-id bits, device nodes, file capabilities, trusted attributes, and the flags "
        "immutable and append-only",
    )
    how.add_argument("-n", "--dry-run", action="store_true", help="only report what would be done")
    how.add_argument("--verify", action="store_true",
                     help="afterwards read everything again from disk and compare")  # fmt: skip
    how.add_argument("--workers", type=number(0, 256), default=0, metavar="N",
                     help="processes that write files; 0: choose for me")  # fmt: skip
    add_restore_options(parser)


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Restore, and with --verify compare; gives the exit code."""
    if goes_through_director(arguments):
        return restore_through_director(arguments, terminal)
    options = _options(arguments, terminal)
    lines = RestoreLines(terminal)
    module = "strongroom.engine.restore.restore"
    with open_repository(arguments, terminal, "view", module=module) as repository:
        place: SnapshotPath = arguments.snapshot
        snapshot = chosen_snapshot(arguments, repository, terminal, place.snapshot)
        options = _with_privileges(options, arguments, repository, snapshot, terminal)
        from strongroom.engine.restore.options import EntryKind
        from strongroom.engine.restore.restore import restore

        def write(subpath: bytes) -> RestoreReport:
            wanted = msgspec.structs.replace(options, subpath=subpath)
            return restore(
                repository, snapshot, wanted, lambda: show_progress(terminal, "restore"), lines
            )

        try:
            subpath, report = at_place(place, repository, snapshot, write)
        except PathNotFoundError:
            _tell_if_unread(repository, snapshot, place.inside)
            raise
        options = msgspec.structs.replace(options, subpath=subpath)
        _name_newest(repository, snapshot, options, lines.unread, terminal)
        verified = None
        if arguments.verify and not options.dry_run:
            verified = _verify(repository, snapshot, options, terminal, lines)
    found = None if verified is None else verified.differences
    terminal.emit(report.summary(snapshot.id, options, found))
    _print(report, verified, terminal, dry_run=options.dry_run)
    if damaged := report.problems.get(EntryKind.CONTENT):
        raise DamageError(
            f"what is stored of {counted(damaged, 'entry')} is damaged or missing, each was named; "
            "the rest was restored. Run strongroom check, then strongroom repair"
        )
    differences = sum((found or {}).values())
    return EXIT_DONE if report.is_complete and not differences else EXIT_INCOMPLETE


def _with_privileges(
    options: RestoreOptions,
    arguments: argparse.Namespace,
    repository: Repository,
    snapshot: Snapshot,
    terminal: Terminal,
) -> RestoreOptions:
    """Keep privileges where they mean what they meant; says before the work what becomes of them.

    That is in place on the host that was backed up, and for a whole system below an empty target,
    from a rescue medium.
    """
    is_own = snapshot.host == socket.gethostname()
    if options.keeps_privileges or (options.in_place and is_own):
        return msgspec.structs.replace(options, keeps_privileges=True)
    obstacle = ""
    if options.in_place:
        obstacle = f"{printable(snapshot.host)} is another host"
    elif os.geteuid():
        obstacle = "only root can restore them"
    elif arguments.settings.key_file:
        obstacle = "the repository was opened with a key file, not with its passphrase"
    elif not is_own and not is_made_with_restore_key(repository.key, snapshot):
        obstacle = "the snapshot was not made with the repository's passphrase"
    elif not _is_empty(options.target):
        obstacle = "the target is not empty"
    what = "set-id bits, devices, capabilities and trusted attributes"
    text = f"{what} are restored too"
    if obstacle:
        text = f"{what} are left out, for {obstacle}; --keep-privileges restores them"
    terminal.emit({"type": "privileges", "kept": not obstacle, "reason": obstacle})
    if not terminal.quiet:
        terminal.message_line(text)
    return msgspec.structs.replace(options, keeps_privileges=not obstacle)


def _is_empty(target: bytes) -> bool:
    """Whether a target holds nothing, as a fresh file system does."""
    try:
        return not set(os.listdir(target)) - {b"lost+found"}
    except FileNotFoundError:
        return True
    except OSError:
        return False


def _tell_if_unread(repository: Repository, snapshot: Snapshot, path: bytes) -> None:
    """Raises PathNotFoundError if `path` is missing because a folder could not be listed."""
    from strongroom.engine.inspect.find import newest_with

    if not is_in_folders(path, snapshot.unread):
        return
    found = newest_with(repository, repository.snapshots(SetAside()), snapshot, [path]).get(path)
    text = "no other snapshot has it" if found is None else _newest_text(found)
    raise PathNotFoundError(
        f"the snapshot has no {printable(shown_path(path))}: its backup could not list a folder on "
        f"the way to it; {text}"
    )


def _name_newest(
    repository: Repository,
    snapshot: Snapshot,
    options: RestoreOptions,
    places: list[bytes],
    terminal: Terminal,
) -> None:
    """Say which snapshots have what this one lacks because its backup could not read it."""
    if not places:
        return
    from strongroom.engine.inspect.find import newest_with

    base = b"" if options.in_place else options.subpath
    if places == [split_path(base)[1]]:
        base = split_path(base)[0]  # a single file
    paths = [join_path(base, place) if base and place else base or place for place in places]
    found = newest_with(repository, repository.snapshots(SetAside()), snapshot, paths)
    for path in dict.fromkeys(paths):
        newest = found.get(path)
        shown = shown_path(path)
        terminal.emit(
            {"type": "unread", "path": shown, "newest": None if newest is None else newest.id}
        )
        text = "no other snapshot has it" if newest is None else _newest_text(newest)
        if not terminal.as_json:
            terminal.warn(f"{printable(shown)}: {text}")


def _newest_text(snapshot: Snapshot) -> str:
    when = local_text(snapshot.start_ns)
    return f"the newest snapshot that has it is {snapshot.short_id} of {when}"


def _options(arguments: argparse.Namespace, terminal: Terminal) -> RestoreOptions:
    from strongroom.engine.restore.options import Overwrite, RestoreOptions

    cache_folder = arguments.settings.cache_folder
    target = b"/" if arguments.in_place else os.path.abspath(os.fsencode(arguments.target or "."))
    if target == b"/" and not arguments.in_place:
        raise UsageError("to restore into / use --in-place instead of --target")
    return RestoreOptions(
        target=target,
        in_place=arguments.in_place,
        includes=patterns_of(arguments, "include"),
        excludes=patterns_of(arguments, "exclude"),
        overwrite=Overwrite(arguments.overwrite or "if-changed"),
        delete=arguments.delete,
        dry_run=arguments.dry_run,
        processes=arguments.workers,
        keeps_privileges=arguments.keep_privileges,
        in_use=() if cache_folder is None else (cache_folder,),
        tells_steps=bool(terminal.verbose) or (arguments.dry_run and not terminal.quiet),
    )


def _verify(
    repository: Repository,
    snapshot: Snapshot,
    options: RestoreOptions,
    terminal: Terminal,
    lines: RestoreLines,
) -> VerifyReport:
    from strongroom.engine.verify.options import VerifyOptions
    from strongroom.engine.verify.verify import verify

    wanted = VerifyOptions(
        root=options.target,
        base=b"" if options.in_place else options.subpath,
        subpath=options.subpath,
        includes=options.includes,
        excludes=options.excludes,
        reads_content=True,
        from_disk=True,
        finds_extra=options.delete,
        after_restore=not options.in_place,
        keeps_privileges=options.keeps_privileges,
        in_use=options.in_use,
        stays_on_mount=True,
        processes=options.processes,
    )
    return verify(repository, snapshot, wanted, lambda: show_progress(terminal, "verify"), lines)


def _print(
    report: RestoreReport, verified: VerifyReport | None, terminal: Terminal, *, dry_run: bool
) -> None:
    from strongroom.engine.restore.scope import spared_lines

    head = "restored: " if report.is_complete else ""
    head = "dry run, nothing was changed: " if dry_run else head
    terminal.line(head + report.actions_text())
    if not dry_run:
        seconds = max(report.elapsed_seconds, 1e-3)
        terminal.line(
            f"wrote {size_text(report.written_bytes)} in {duration_text(seconds)}, "
            f"{size_text(report.written_bytes / seconds)}/s"
        )
    for kind, count in sorted(report.problems.items()):
        terminal.line(f"{count:,} {kind}: {_MEANINGS[kind]}")
    for privilege, count in sorted(report.left_out.items()):
        terminal.line(f"{count:,} {privilege} left out; --keep-privileges restores them")
    for line in spared_lines(report.not_deleted):
        terminal.line(line)
    if report.problems:
        terminal.line(f"not everything is as in the snapshot; exit code {report.exit_code}")
    if verified is not None:
        found = sum(verified.differences.values())
        terminal.line(f"verified {counted(verified.rows, 'entry')}: {counted(found, 'difference')}")
