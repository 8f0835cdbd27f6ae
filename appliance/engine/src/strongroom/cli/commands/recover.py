"""`strongroom recover`: get back the director's own backup, its catalog and configuration.

An agent chooses job, paths, tags and times of what it stores, so none of these says what the
director backed up. Its snapshots are those of the client that has its name: they are sealed with
that client's key, and the director enrols no agent of that name.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable
from typing import Final

from strongroom.base.clock import local_text, utc_text
from strongroom.base.errors import (
    EXIT_DONE,
    EXIT_INCOMPLETE,
    OperatingSystemError,
    SnapshotNotFoundError,
    UsageError,
    os_errors,
)
from strongroom.base.printable import printable
from strongroom.cli.access import open_repository
from strongroom.cli.live_progress import show_progress
from strongroom.cli.options import moment
from strongroom.cli.snapshot_choice import SnapshotChoice
from strongroom.cli.terminal import Terminal
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.snapshots import Snapshot

EPILOG = """\
examples:
  strongroom recover --repo /srv/repository                 lists the clients that may be directors
  strongroom recover vault-dir --target /root/back --repo /srv/repository
  strongroom recover vault-dir --target /root/back --before 2d --repo /srv/repository

Writes configuration and catalog into the target, with their whole paths, and says where they are.
Only backups that the director of this name made itself are used, whatever agents stored.
"""

# As the director's own backup of its catalog has them.
_JOB: Final = "catalog"
_CATALOG_FOLDER: Final = b"catalog-backup"
_CATALOG_FILE: Final = b"catalog.jsonl"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the director's name, the snapshot and the target."""
    parser.add_argument(
        "director",
        metavar="DIRECTOR",
        nargs="?",
        help="the director's name, as its Director resource had it; without it the clients that "
        "have backups of this kind are listed",
    )
    parser.add_argument("-t", "--target", metavar="FOLDER", help="a new or empty folder")
    parser.add_argument(
        "--snapshot", metavar="ID", default="latest", help="this one instead of the newest"
    )
    parser.add_argument(
        "--before", metavar="TIME", type=moment,
        help="the newest begun at or before TIME: a date, a date and time, or how long ago (7d)",
    )  # fmt: skip
    parser.set_defaults(host=None, job=_JOB, path=[], tag=[], false=False)


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Restore it. Raises UsageError, SnapshotNotFoundError, SetBackError, DamageError."""
    if arguments.director and not arguments.target:
        raise UsageError("add --target FOLDER")
    target = os.path.abspath(arguments.target) if arguments.target else ""
    if target:
        _require_empty(target)
    arguments.host = arguments.director
    module = "strongroom.engine.restore.restore"
    with open_repository(arguments, terminal, module=module) as repository:
        choice = SnapshotChoice(arguments, repository)
        if not arguments.director:
            return _list(choice.snapshots, terminal)
        # Another generation of the name is an agent's: the director itself is always the first.
        choice.snapshots = [one for one in choice.snapshots if not one.generation]
        if not choice.snapshots:
            raise SnapshotNotFoundError(
                f"no director {printable(arguments.director)} backed up its catalog here; "
                "strongroom recover lists who did"
            )
        snapshot = repository.snapshot(choice.find(arguments.snapshot).id)
        os.makedirs(target, mode=0o700, exist_ok=True)
        complete = _restore(repository, snapshot, os.fsencode(target), terminal)
    catalog, configuration = _places(snapshot, os.fsencode(target))
    terminal.emit(
        {
            "type": "recovered",
            "director": snapshot.host,
            "snapshot": snapshot.id,
            "time": utc_text(snapshot.start_ns),
            "catalog": catalog or None,
            "configuration": configuration,
        }
    )
    terminal.line(
        f"recovered from snapshot {snapshot.short_id} of {printable(snapshot.host)}, "
        f"{local_text(snapshot.start_ns)}:"
    )
    for place in configuration:
        terminal.line(f"  configuration  {printable(place)}")
    terminal.line(f"  catalog        {printable(catalog) or 'missing'}")
    return EXIT_DONE if complete else EXIT_INCOMPLETE


def _list(snapshots: Iterable[Snapshot], terminal: Terminal) -> int:
    newest: dict[str, Snapshot] = {}
    for one in snapshots:
        if not one.generation:
            newest[one.host] = one
    for host, one in sorted(newest.items()):
        terminal.emit({"type": "director", "name": host, "snapshot": one.id})
        terminal.line(
            f"{printable(host)}  newest backup {one.short_id}, {local_text(one.start_ns)}"
        )
    if not newest:
        terminal.line("no client has a backup of a catalog here")
        return EXIT_DONE
    terminal.line(
        "Any agent can store such a backup. Give the name that your director had: "
        "strongroom recover DIRECTOR --target FOLDER"
    )
    return EXIT_DONE


def _require_empty(target: str) -> None:
    with os_errors(printable(target), kind=OperatingSystemError):
        if os.path.lexists(target) and os.listdir(target):
            raise UsageError(f"{printable(target)} is not empty; give a new folder")


def _restore(repository: Repository, snapshot: Snapshot, target: bytes, terminal: Terminal) -> bool:
    """Whether everything could be written."""
    from strongroom.cli.entry_lines import RestoreLines
    from strongroom.engine.restore.options import RestoreOptions
    from strongroom.engine.restore.restore import restore

    report = restore(
        repository,
        snapshot,
        RestoreOptions(target=target),
        lambda: show_progress(terminal, "restore"),
        RestoreLines(terminal),
    )
    return report.is_complete


def _places(snapshot: Snapshot, target: bytes) -> tuple[str, list[str]]:
    """Where the catalog is now, "" if it is missing, and where each path of the configuration."""
    catalog, configuration = "", []
    for path in snapshot.paths:
        place = os.path.join(target, path)
        if os.path.basename(path) != _CATALOG_FOLDER:
            configuration.append(os.fsdecode(place))
        elif os.path.exists(file := os.path.join(place, _CATALOG_FILE)):
            catalog = os.fsdecode(file)
    return catalog, configuration
