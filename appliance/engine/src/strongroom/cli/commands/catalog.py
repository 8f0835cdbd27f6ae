"""`strongroom catalog`: export, import, rebuild or recover the director's catalog."""

from __future__ import annotations

import argparse
import os
import pwd
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO

import msgspec

from strongroom.base.clock import local_text
from strongroom.base.errors import (
    EXIT_DONE,
    EXIT_INCOMPLETE,
    OperatingSystemError,
    StrongroomError,
    UsageError,
    os_errors,
)
from strongroom.base.quantities import counted
from strongroom.cli.daemons import add_configuration_option
from strongroom.cli.terminal import Terminal

if TYPE_CHECKING:
    from strongroom.director.context import DirectorContext

EPILOG = """\
examples:
  strongroom catalog export /root/catalog.jsonl
  strongroom catalog import /root/catalog.jsonl     into an empty catalog, SQLite or PostgreSQL
  strongroom catalog rebuild                        from every repository the director reaches
  strongroom catalog rebuild --storage main
  strongroom catalog recover                        when its file is damaged or lost

Export and rebuild may run while the director runs. A rebuild adds snapshots that are missing in the
catalog and marks those that no longer exist. Stop the director for an import.

Recover takes all rows of the damaged file if they can be read, else the newest copy of the catalog
in a repository, completed from the repositories. The damaged file stays beside the new one. Does
nothing if the catalog is not damaged. A running director notices it and starts again.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions."""
    actions = parser.add_subparsers(title="actions", required=True, metavar="ACTION")
    exporting = actions.add_parser("export", help="write the catalog as lines of JSON")
    exporting.add_argument("file", metavar="FILE", help="a new file, or -")
    exporting.set_defaults(run=_export)
    importing = actions.add_parser("import", help="fill an empty catalog from an export")
    importing.add_argument("file", metavar="FILE", help="the export, or -")
    importing.set_defaults(run=_import)
    rebuilding = actions.add_parser("rebuild", help="add the snapshots of repositories")
    rebuilding.add_argument("--storage", metavar="NAME", help="only of this Storage resource")
    rebuilding.set_defaults(run=_rebuild)
    recovering = actions.add_parser("recover", help="make a damaged or lost catalog anew")
    recovering.set_defaults(run=_recover)
    add_configuration_option(
        parser, exporting, importing, rebuilding, recovering, text="the director's tree or file"
    )


def _export(arguments: argparse.Namespace, terminal: Terminal) -> int:
    from strongroom.director.catalog.portable import write_portable

    with _context(arguments) as context:
        if arguments.file == "-":
            write_portable(context.catalog, terminal.output.buffer)
            return EXIT_DONE
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with _opened(arguments.file, flags, "wb") as file:
            rows = write_portable(context.catalog, file)
            file.flush()
            os.fsync(file.fileno())
    _tell(terminal, rows, f"{counted(rows, 'row')} written to {arguments.file}")
    return EXIT_DONE


def _import(arguments: argparse.Namespace, terminal: Terminal) -> int:
    from strongroom.director.catalog.portable import read_portable

    with _context(arguments) as context:
        if arguments.file == "-":
            rows = read_portable(context.catalog, sys.stdin.buffer)
        else:
            with _opened(arguments.file, os.O_RDONLY | os.O_CLOEXEC, "rb") as file:
                rows = read_portable(context.catalog, file)
        _tell(terminal, rows, f"{counted(rows, 'row')} imported into {context.catalog.place}")
    return EXIT_DONE


def _rebuild(arguments: argparse.Namespace, terminal: Terminal) -> int:
    from strongroom.director.snapshots.reconciliation import reconcile
    from strongroom.engine.repository.set_aside import SetAside

    with _context(arguments) as context:
        names = [arguments.storage] if arguments.storage else context.repositories.names
        if not names:
            raise UsageError(
                "no Storage resource has the directive Repository, so there is nothing to read"
            )
        failed: dict[str, StrongroomError] = {}
        left_out = SetAside()
        for name in names:
            try:
                found = reconcile(context, name, rebuilds=True)
            except StrongroomError as error:
                # The other storages are still read.
                failed[name] = error
                terminal.emit(
                    {
                        "type": "catalog-rebuild",
                        "storage": name,
                        "error_id": error.error_id,
                        "error": str(error),
                    }
                )
                terminal.line(f"{name}: could not be read: {error}")
                continue
            entered, gone = len(found.entered), len(found.gone)
            terminal.emit(
                {"type": "catalog-rebuild", "storage": name, "snapshots": entered, "gone": gone}
            )
            terminal.line(
                f"{name}: {counted(entered, 'snapshot')} added, {gone:,} marked as removed"
            )
            for one, why in found.refused.items():
                terminal.warn(f"{name}: snapshot {one[:8]} is not entered: {why}")
                left_out.add("snapshots", one, why)
    if failed:
        first = next(iter(failed.values()))
        if len(names) == 1:
            raise first
        raise type(first)(
            f"{len(failed)} of {counted(len(names), 'storage')} could not be read: "
            f"{', '.join(failed)}; what "
            "is in the others is in the catalog. Repair these, then rebuild again"
        )
    left_out.require_none()
    return EXIT_DONE


def _recover(arguments: argparse.Namespace, terminal: Terminal) -> int:
    from strongroom.director.configuration import load_configuration
    from strongroom.director.own_jobs.catalog_copies import recover_catalog

    loaded = load_configuration(arguments.config)
    _become_owner_of(loaded.settings.director.working_folder)
    done = recover_catalog(arguments.config, loaded)
    terminal.emit({"type": "catalog-recovery", **msgspec.structs.asdict(done)})
    if done.source == "sound":
        terminal.line("the catalog is not damaged; nothing was changed")
        return EXIT_DONE
    if done.source == "file":
        terminal.line(f"recovered all {counted(done.rows, 'row')} of the damaged file")
    elif done.source == "copy":
        made = local_text(done.snapshot_ns)
        terminal.line(
            f"restored the copy of {made} (snapshot {done.snapshot[:8]}, "
            f"{counted(done.rows, 'row')}); "
            "runs, logs and tokens made after it are lost"
        )
    else:
        terminal.line("no copy of the catalog was found: it is made anew from the repositories")
    for name, count in done.entered.items():
        terminal.line(f"{name}: {counted(count, 'snapshot')} added")
    for name, error in done.failed.items():
        terminal.warn(
            f"{name}: could not be read: {error}. Then: strongroom catalog rebuild --storage {name}"
        )
    if done.aside:
        terminal.line(f"the damaged file is {done.aside}; remove it when the catalog works")
    return EXIT_INCOMPLETE if done.failed else EXIT_DONE


def _become_owner_of(folder: str) -> None:
    """Drop the rights of root: what it made could not be written by the director's user."""
    try:
        owner = os.stat(folder)
        if os.geteuid() or not owner.st_uid:
            return
        name = pwd.getpwuid(owner.st_uid).pw_name
        os.initgroups(name, owner.st_gid)
        os.setgid(owner.st_gid)
        os.setuid(owner.st_uid)
    except FileNotFoundError:
        return
    except (OSError, KeyError) as error:
        raise OperatingSystemError(f"cannot act as the owner of {folder}: {error}") from error


@contextmanager
def _context(arguments: argparse.Namespace) -> Iterator[DirectorContext]:
    from strongroom.director.configuration import open_context

    context = open_context(arguments.config, None)
    try:
        yield context
    finally:
        context.close()


@contextmanager
def _opened(path: str, flags: int, mode: str) -> Iterator[BinaryIO]:
    with os_errors(f"cannot open {path}", kind=OperatingSystemError):
        descriptor = os.open(path, flags, 0o600)
    with os.fdopen(descriptor, mode) as file:
        yield file  # type: ignore[misc]  # the mode says that it is binary


def _tell(terminal: Terminal, rows: int, text: str) -> None:
    terminal.emit({"type": "catalog-copy", "rows": rows})
    terminal.line(text)
