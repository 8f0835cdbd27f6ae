"""`strongroom backup`: make a snapshot of files, of standard input or of a command's output."""

from __future__ import annotations

import argparse
import os
import socket
from importlib import import_module
from typing import TYPE_CHECKING

import msgspec

from strongroom.base.errors import (
    EXIT_DONE,
    EXIT_INCOMPLETE,
    PathMissingError,
    UsageError,
    os_errors,
)
from strongroom.base.printable import printable
from strongroom.base.quantities import counted, duration_text, size_text
from strongroom.base.text_marks import plain_text
from strongroom.cli.access import begin_store, open_repository, read_key_file
from strongroom.cli.live_progress import show_progress
from strongroom.cli.options import (
    JOINED,
    REPEATED,
    add_knob_options,
    add_patterns,
    knob_settings,
    may_be_empty,
    size,
    stored_text,
    words,
)
from strongroom.cli.settings import Settings
from strongroom.cli.snapshot_choice import shown_path
from strongroom.cli.terminal import JsonObject, Terminal
from strongroom.engine.repository.keys.roles import PutKey
from strongroom.engine.scan.share_folders import DEFAULT_SHARE_BELOW, share_folders
from strongroom.engine.sources.files import FilesSource
from strongroom.sources.source import Problem, Source, SourceRequest

if TYPE_CHECKING:
    from strongroom.engine.backup.options import BackupOptions
    from strongroom.engine.backup.report import BackupReport
    from strongroom.engine.backup.shards.examined import ExaminedEntry

EPILOG = """\
examples:
  strongroom backup /etc /home
  strongroom backup --exclude '*.tmp' --exclude-caches --one-file-system /
  strongroom backup --tag nightly --level full --signature sha256 /srv
  pg_dump db | strongroom backup --stdin --stdin-name db.sql
  strongroom backup --source command --stdin-name db.sql -- pg_dump db
  strongroom backup --skip-if-unchanged /etc
  strongroom backup --dry-run --verbose /home
  find /srv -name '*.db' -print0 | strongroom backup --files-from-raw -
  strongroom backup --fileset-config /etc/bareos/bareos-dir.d/fileset/LinuxAll.conf:LinuxAll

-n -v lists every entry: new, changed or unchanged, left out (with the reason) or not entered; -vv
lists them without -n, too.

--skip-if-unchanged compares paths, content and attributes, not tags and not the folders above the
named paths. It makes a snapshot where that one may be less complete, or less trusted, than the new.

Exit code 3: the snapshot was made, but some files could not be read, or changed while being read,
or one of several paths is not there (17 with --missing-is-error) or is a link, pipe or device of
which only the name is stored, or what is read from a stream is empty. Exit code 4: nothing that was
named is there; no snapshot.
"""

_ENGINE = "strongroom.engine.backup.backup"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the source and the options."""
    parser.add_argument(
        "path",
        nargs="*",
        type=may_be_empty(os.fsencode),
        help="files and directories, or a source's arguments",
    )
    what = parser.add_argument_group("what")
    what.add_argument(
        "--files-from",
        **REPEATED,
        metavar="FILE",
        help="also the paths in FILE, one a line, as they are; - is standard input",
    )
    what.add_argument(
        "--files-from-raw",
        **REPEATED,
        metavar="FILE",
        help="the same with a NUL after each path, as find -print0 writes them",
    )
    what.add_argument(
        "--source", default="files", metavar="NAME", help="files, command or a plugin's name"
    )
    what.add_argument("--stdin", action="store_true", help="store standard input")
    what.add_argument(
        "--stdin-name", default="stdin", metavar="NAME", type=os.fsencode,
        help="name of the file a stream becomes",
    )  # fmt: skip
    what.add_argument(
        "--allow-empty",
        action="store_true",
        help="no warning where standard input or a command's output is empty",
    )
    what.add_argument(
        "--source-option", **REPEATED, metavar="KEY=VALUE", type=_key_and_value, help="for plugins"
    )
    what.add_argument(
        "--fileset-config",
        metavar="FILE:NAME",
        help="what the FileSet NAME of a director's configuration (a file or folder) says; "
        "NAME may be left out where there is one",
    )
    what.add_argument(
        "--allow-commands", action="store_true", help="run the commands that the FileSet names"
    )
    what.add_argument(
        "--missing-is-error",
        action="store_true",
        help="exit with 17, not 3, where one of several paths is not there; the rest is backed up "
        "all the same",
    )
    _add_exclusions(parser.add_argument_group("what to leave out"))
    snapshot = parser.add_argument_group("the snapshot")
    snapshot.add_argument("--tag", **JOINED, type=may_be_empty(words), metavar="TAG[,TAG]")
    snapshot.add_argument(
        "--host",
        default="",
        type=stored_text,
        metavar="NAME",
        help="the client's name (else the put key's, else this machine's)",
    )
    snapshot.add_argument("--job", default="", type=stored_text, metavar="NAME")
    snapshot.add_argument("--fileset", default="", type=stored_text, metavar="NAME")
    snapshot.add_argument(
        "--level",
        choices=("full", "differential", "incremental"),
        default="incremental",
        help="full reads everything; differential compares with the last full snapshot, "
        "incremental (usual) with the last",
    )
    snapshot.add_argument("--parent", metavar="ID", help="compare with this snapshot instead")
    snapshot.add_argument(
        "--share-below",
        action="append",
        type=may_be_empty(str),
        metavar="DIR",
        help="offer public files below DIR to other clients of the repository; usual: "
        f'{", ".join(DEFAULT_SHARE_BELOW)}; "" for none',
    )
    snapshot.add_argument(
        "-n",
        "--dry-run",
        action="store_true",
        help="read, but store nothing; with -v say of each entry "
        "what would happen to it, and why others are left out",
    )
    snapshot.add_argument(
        "--skip-if-unchanged",
        action="store_true",
        help="make no snapshot if nothing changed since the one it is compared with; exit code 0",
    )
    add_knob_options(parser.add_argument_group("knobs (0: choose for me)"))


def _add_exclusions(group: argparse._ArgumentGroup) -> None:
    add_patterns(group, "exclude", files=True)
    group.add_argument("--exclude-caches", action="store_true",
                       help="directories with a CACHEDIR.TAG")  # fmt: skip
    group.add_argument("--exclude-if-present", **REPEATED, type=os.fsencode,
                       metavar="NAME[:HEADER]", help="directories that hold this file")  # fmt: skip
    group.add_argument("-x", "--one-file-system", action="store_true")
    group.add_argument("--exclude-larger-than", metavar="SIZE", type=size, help="such as 500M")
    group.add_argument("--exclude-smaller-than", metavar="SIZE", type=size)


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Make the snapshot and print its summary."""
    if arguments.parent and arguments.level == "full":
        raise UsageError("a full backup compares with nothing: leave out --parent or --level full")
    if arguments.skip_if_unchanged and arguments.level == "full":
        raise UsageError(
            "a full backup compares with nothing: leave out --skip-if-unchanged or --level full"
        )
    options = _options(arguments)
    if arguments.fileset_config is None:
        source = _source(arguments)
        if isinstance(source, FilesSource):
            warnings = source.warnings()
            options = msgspec.structs.replace(
                options, known_problems=source.problems, warnings=warnings
            )
    else:
        source, options = _of_fileset(arguments, options, terminal)
    store = begin_store(arguments, options.tuning.shard_count())
    if arguments.settings.key_file:
        import_module(_ENGINE)  # while a remote store is being connected

    def tell(entry: ExaminedEntry) -> None:
        path = shown_path(entry.path)
        shown_entry: JsonObject = {"type": "entry", "action": entry.action, "path": path}
        terminal.emit({**shown_entry, "reason": entry.reason} if entry.reason else shown_entry)
        reason = f": {entry.reason}" if entry.reason else ""
        terminal.line(f"{entry.action:<12}{printable(path)}{reason}")

    with open_repository(arguments, terminal, "write", store, _ENGINE) as repository:
        from strongroom.engine.backup.backup import back_up

        report = back_up(
            repository, source, options, lambda: show_progress(terminal, "backup"), tell
        )
    for warning in report.warnings:
        terminal.emit({"type": "warning", "message": warning})
        terminal.warn(warning)
    for problem in report.problems:
        _tell(problem, terminal)
    terminal.emit(report.summary(options))
    _print(report, terminal, is_dry_run=options.dry_run)
    if terminal.verbose:
        terminal.line(_scan_sentence(report))
        terminal.line(_store_sentence(report))
        _print_prediction(report, arguments.settings, terminal)
    if arguments.missing_is_error and report.missing:
        count = len(report.missing)
        what = "1 path that was named is" if count == 1 else f"{count:,} paths that were named are"
        raise PathMissingError(f"{what} not there; the rest was backed up")
    return EXIT_DONE if report.is_complete else EXIT_INCOMPLETE


def _source(arguments: argparse.Namespace) -> Source:
    from strongroom.engine.sources.registry import open_source

    listed = _listed_paths(arguments)
    if listed and arguments.source != "files":
        raise UsageError("--files-from goes with files, not with another source")
    if arguments.source == "files" and b"" in arguments.path:
        # Not the present folder, which `backup "$FOLDER"` would store where it is not set.
        raise UsageError("a path to back up is empty; give it a value, or leave it out")
    if arguments.stdin and (arguments.path or listed or arguments.source != "files"):
        raise UsageError("with --stdin name neither paths nor another source")
    request = SourceRequest(
        (*arguments.path, *listed),
        arguments.stdin_name,
        dict(arguments.source_option),
        frozenset(listed),
    )
    return open_source("stdin" if arguments.stdin else arguments.source, request)


def _key_and_value(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"{text}: write KEY=VALUE")
    return key, value


def _listed_paths(arguments: argparse.Namespace) -> list[bytes]:
    """The paths that --files-from and --files-from-raw name, "-" at most once. UsageError."""
    found: list[bytes] = []
    lists = [(name, b"\n") for name in arguments.files_from]
    lists += [(name, b"\0") for name in arguments.files_from_raw]
    if sum(name == "-" for name, _ in lists) > 1 or (lists and arguments.stdin):
        raise UsageError("standard input can be read once: as a list of files, or as --stdin")
    for name, end in lists:
        with (
            os_errors(f"--files-from {printable(name)}"),
            open(0 if name == "-" else name, "rb", closefd=name != "-") as file,
        ):
            text = file.read()
        if end == b"\n":
            text = plain_text(text, printable(name))
        paths = [path for path in text.split(end) if path]
        if any(b"\0" in path for path in paths):
            raise UsageError(f"{printable(name)} holds NUL: give it as --files-from-raw")
        if not paths:
            raise UsageError(f"{printable(name)} names no file, so there is nothing to back up")
        found += paths
    return found


def _of_fileset(
    arguments: argparse.Namespace, options: BackupOptions, terminal: Terminal
) -> tuple[Source, BackupOptions]:
    from strongroom.config.filesets import chosen_fileset, fileset_notes, fileset_spec
    from strongroom.config.settings.fileset import FileSetSettings
    from strongroom.engine.backup.fileset_options import with_fileset
    from strongroom.engine.filesets.exclusions import SelectionOptions
    from strongroom.engine.filesets.resolve import resolve_fileset

    is_listed = arguments.files_from or arguments.files_from_raw
    if arguments.path or is_listed or arguments.stdin or arguments.source != "files":
        raise UsageError("with --fileset-config name neither paths nor another source")
    if options.selection != SelectionOptions():
        raise UsageError("with --fileset-config the FileSet says what is left out")
    resource = chosen_fileset(arguments.fileset_config)
    commands = arguments.allow_commands
    spec = fileset_spec(FileSetSettings.of(resource), allow_commands=commands)
    resolved = resolve_fileset(spec, allow_commands=commands)
    options, notes = with_fileset(options, resolved)
    for note in fileset_notes(resource):
        terminal.detail(note)
    for note in notes:
        terminal.emit({"type": "warning", "message": note})
        terminal.warn(note)
    return resolved.source, options


def _options(arguments: argparse.Namespace) -> BackupOptions:
    from strongroom.engine.backup.options import BackupOptions, settle_tuning
    from strongroom.engine.filesets.exclusions import SelectionOptions

    selection = SelectionOptions(
        exclude=tuple(arguments.exclude),
        exclude_ignoring_case=tuple(arguments.iexclude),
        exclude_files=tuple(arguments.exclude_file),
        exclude_files_ignoring_case=tuple(arguments.iexclude_file),
        exclude_caches=arguments.exclude_caches,
        exclude_if_present=tuple(arguments.exclude_if_present),
        one_file_system=arguments.one_file_system,
        exclude_larger_than_bytes=arguments.exclude_larger_than,
        exclude_smaller_than_bytes=arguments.exclude_smaller_than,
    )
    settings: Settings = arguments.settings
    return BackupOptions(
        host=arguments.host or _own_name(arguments),
        job=arguments.job,
        fileset=arguments.fileset,
        level=arguments.level,
        tags=tuple(sorted(set(arguments.tag))),
        parent=arguments.parent,
        dry_run=arguments.dry_run,
        skips_unchanged=arguments.skip_if_unchanged,
        allows_empty=arguments.allow_empty,
        tells_entries=bool(settings.verbose) and (arguments.dry_run or settings.verbose > 1),
        # No one watches a quiet backup.
        counts_ahead=not settings.quiet,
        selection=selection,
        tuning=settle_tuning(knob_settings(arguments), spelling="option"),
        cache_folder=arguments.settings.cache_folder,
        share_below=_share_below(arguments.share_below),
    )


def _share_below(given: list[str] | None) -> tuple[str, ...]:
    try:
        return share_folders(DEFAULT_SHARE_BELOW if given is None else given)
    except UsageError as error:
        raise UsageError(f"--share-below: {error}") from error


def _own_name(arguments: argparse.Namespace) -> str:
    """The client's name: that of the put key if one was given, else of this machine."""
    if arguments.settings.key_file:
        key = read_key_file(arguments.settings.key_file)
        if isinstance(key, PutKey):
            return key.name
    return socket.gethostname()


def _tell(problem: Problem, terminal: Terminal) -> None:
    terminal.emit(
        {
            "type": "problem",
            "path": b"/" + problem.path,
            "errno": problem.errno,
            "message": problem.text,
            "harmless": problem.is_harmless,
        }
    )
    if not terminal.as_json and (not problem.is_harmless or terminal.verbose):
        terminal.warn(f"/{printable(problem.path)}: {problem.text}")


def _print(report: BackupReport, terminal: Terminal, *, is_dry_run: bool) -> None:
    if report.is_unchanged:
        would = "would be" if is_dry_run else "was"
        terminal.line(f"nothing changed since {report.parent_id[:8]}: no snapshot {would} made")
    elif report.snapshot is None:
        terminal.line("dry run: nothing was stored")
    else:
        against = f", compared with {report.parent_id[:8]}" if report.parent_id else ""
        terminal.line(f"snapshot {report.snapshot.short_id}{against}")
    terminal.line(
        f"{counted(report.files, 'file')}, {counted(report.directories, 'directory')}, "
        f"{report.others:,} other, {size_text(report.size_bytes)}"
    )
    seconds = max(report.elapsed_seconds, 1e-3)
    stored = "would store" if is_dry_run else "stored"
    terminal.line(
        f"read {counted(report.files_read, 'file')}, {size_text(report.bytes_read)}; "
        f"new {size_text(report.new_bytes)}, {stored} {size_text(report.stored_bytes)}; "
        f"{duration_text(seconds)}, {size_text(report.bytes_read / seconds)}/s"
    )
    failed = sum(not problem.is_harmless for problem in report.problems)
    if failed:
        terminal.line(f"{counted(failed, 'problem')}, named above; exit code 3")


def _scan_sentence(report: BackupReport) -> str:
    threads, bound = report.scan
    reasons = {
        "quick": "the file system answers immediately",
        "given": "as asked",
        "most": "the most that is tried",
        "waits": "with more each would only wait longer",
        "tree": "more threads were not faster",
    }
    of_shard = "1 scan thread" if threads == 1 else f"up to {threads} scan threads"
    return f"{of_shard} in each shard: {reasons[bound]}"


def _store_sentence(report: BackupReport) -> str:
    if report.queue_blocks:
        blocks = counted(report.queue_blocks, "block")
        return f"up to {blocks} waited in each shard for threads that store"
    return "each shard stored its blocks itself: the store did not make it wait"


def _print_prediction(report: BackupReport, settings: Settings, terminal: Terminal) -> None:
    """What the last baseline predicted, where there is one."""
    from strongroom.cli.measure.comparison import Measured, compare, comparison_sentences
    from strongroom.cli.remembered_profile import remembered

    profile = remembered(settings)
    if profile is None:
        return
    entries = report.files + report.directories + report.others
    taken = Measured(entries, report.files_read, report.bytes_read, report.elapsed_seconds)
    found = compare(profile, taken)
    if found is not None:
        for sentence in comparison_sentences(found):
            terminal.line(sentence)
