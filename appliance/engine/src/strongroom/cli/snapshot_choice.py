"""Options that select snapshots, and snapshots as JSON objects."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from strongroom.cli.times import parse_moment
from strongroom.clock import utc_text
from strongroom.repo.snapshots import find_snapshot, select_snapshots

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable

    from strongroom.repo.repository import Repository
    from strongroom.repo.snapshots import Snapshot

ROOT = b""


def add_snapshot_filters(parser: argparse.ArgumentParser) -> None:
    """Give `parser` the options that filter snapshots."""
    group = parser.add_argument_group("which snapshots")
    group.add_argument("--host", metavar="NAME", help="only those of the client of this name")
    group.add_argument("--job", metavar="NAME", help="only those of this job")
    group.add_argument(
        "--path",
        metavar="PATH",
        action="append",
        default=[],
        help="only those made of this path (several: of all of them)",
    )
    group.add_argument(
        "--tag",
        metavar="TAG[,TAG]",
        action="append",
        default=[],
        help="only those with this tag (several: with all of them)",
    )
    group.add_argument(
        "--before",
        metavar="TIME",
        help="only those begun at or before TIME: a date, a date and time, or how long ago (7d)",
    )


def snapshot_filter(
    arguments: argparse.Namespace,
) -> Callable[[Iterable[Snapshot]], list[Snapshot]]:
    """The filter that the options define; it keeps the order."""
    before_ns = None if arguments.before is None else parse_moment(arguments.before)
    # Backups make relative paths absolute; so do we.
    paths = tuple(normal_path(os.path.abspath(path)) for path in arguments.path)
    tags = tuple(tag for tags in arguments.tag for tag in tags.split(",") if tag)

    def choose(snapshots: Iterable[Snapshot]) -> list[Snapshot]:
        return select_snapshots(
            snapshots,
            host=arguments.host,
            job=arguments.job,
            paths=paths,
            tags=tags,
            before_ns=before_ns,
        )

    return choose


def filtered_snapshots(arguments: argparse.Namespace, repository: Repository) -> list[Snapshot]:
    """The snapshots that match the options, without pages, the oldest first."""
    return snapshot_filter(arguments)(repository.snapshots())


def chosen_snapshot(arguments: argparse.Namespace, repository: Repository, wanted: str) -> Snapshot:
    """The snapshot that `wanted` selects (`latest` or the beginning of an id), with its pages.

    Raises SnapshotNotFoundError, KeyRightError.
    """
    found = find_snapshot(filtered_snapshots(arguments, repository), wanted)
    return repository.snapshot(found.id)


def normal_path(path: str) -> bytes:
    """An absolute path in the form of listings: without the slashes around it, b"" for the root."""
    return os.path.normpath(b"/" + os.fsencode(path)).strip(b"/")


def shown_path(path: bytes) -> bytes:
    """A path of a listing as an absolute path."""
    return b"/" + path


def snapshot_object(snapshot: Snapshot) -> dict[str, object]:
    """A snapshot for `Terminal.emit`; docs/reference/json-output.md says what the fields mean."""
    totals = snapshot.totals
    return {
        "type": "snapshot",
        "id": snapshot.id,
        "time": utc_text(snapshot.start_ns),
        "end_time": utc_text(snapshot.end_ns),
        "server_time": utc_text(snapshot.server_ns) if snapshot.server_ns else None,
        "host": snapshot.host,
        "job": snapshot.job,
        "fileset": snapshot.fileset,
        "level": snapshot.level,
        "parent": snapshot.parent or None,
        "original": snapshot.original or None,
        "tags": list(snapshot.tags),
        "paths": [shown_path(path) for path in snapshot.paths],
        "files": totals.files,
        "directories": totals.directories,
        "others": totals.others,
        "size_bytes": totals.content_bytes,
        "stored_bytes": totals.stored_bytes,
        "errors": snapshot.error_count,
        "protected": snapshot.protected,
        "engine_version": snapshot.engine_version,
    }
