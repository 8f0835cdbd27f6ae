"""Whether a backup holds far less than those before it: a disk that is not mounted, an empty dump.

Such a run is `incomplete`, is reported, and its snapshot displaces none in retention, as one that
lacks a named path: until a run holds as much as usual again, or an operator says that it is right
now (`strongroom accept`). It is compared with the last runs of its job that held as much as usual:

- a named path that is empty, and was not before;
- a named path on another file system than before: what was mounted there is not;
- a tenth or less of the usual files or bytes. Files that could not be read do not count.

Where the FileSet has changed, a smaller backup is what somebody wanted; one without files is not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from statistics import median
from typing import Any, Final

from strongroom.base import clock
from strongroom.base.errors import SnapshotNotFoundError
from strongroom.base.printable import printable
from strongroom.base.quantities import counted, size_text
from strongroom.director.catalog.database import Catalog
from strongroom.director.catalog.runs import NewLine, change_run, find_runs, known_run
from strongroom.director.catalog.snapshots import load_snapshot, note_accepted, usual_snapshots
from strongroom.director.context import DirectorContext
from strongroom.director.results.runs import Run, RunFilter
from strongroom.director.results.snapshots import Snapshot

FIELD: Final = "shortfalls"
_PART: Final = 10
# Fewer vary by themselves.
_LEAST_FILES: Final = 10
_LEAST_BYTES: Final = 64 << 10
_MOST_PATHS: Final = 20
_LONGEST_PATH: Final = 300


def shortfalls(catalog: Catalog, record: Snapshot, summary: Mapping[str, Any]) -> list[list[str]]:
    """What a backup is short of: pairs of a path ("" for all of it) and a sentence. Blocks."""
    usual = usual_snapshots(catalog, record)
    is_same = bool(usual)
    if not is_same:
        usual = usual_snapshots(catalog, replace(record, fileset_digest=""))
    if not usual:
        return []
    found = []
    if is_same:
        found = [[path, text] for path, text in _paths(_summary_of(catalog, usual[0]), summary)]
    # A path that is missing is an error without a file.
    unreadable = max(0, record.errors - record.missing_paths)
    readable = max(0, record.files - unreadable)
    files = int(median(one.files for one in usual))
    size = int(median(one.bytes for one in usual))
    if readable == 0 < files or (is_same and files >= _LEAST_FILES and readable * _PART <= files):
        found.append(["", f"it holds {counted(readable, 'file')}; earlier ones held {files:,}"])
    elif is_same and size >= _LEAST_BYTES and record.bytes * _PART <= size:
        found.append(
            ["", f"it holds {size_text(record.bytes)}; earlier ones held {size_text(size)}"]
        )
    return found


def shortfalls_of(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Those that are stored with a run."""
    stored = summary.get(FIELD)
    return [(str(path), str(text)) for path, text in stored] if isinstance(stored, list) else []


def _paths(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[tuple[str, str]]:
    found = []
    was_empty, is_empty = before.get("empty_paths"), now.get("empty_paths")
    if isinstance(was_empty, list) and isinstance(is_empty, list):
        found += [
            (path, f"{path} is empty, and was not before")
            for path in map(_path, is_empty)
            if path not in set(map(_path, was_empty))
        ]
    named = {path for path, _ in found}
    was_mounted, is_mounted = before.get("mounts"), now.get("mounts")
    if isinstance(was_mounted, dict) and isinstance(is_mounted, dict):
        now_mounted = {_path(path): _path(place) for path, place in is_mounted.items()}
        for path, place in was_mounted.items():
            shown, point = _path(path), _path(place)
            # One that is not there any more is reported as missing.
            if shown not in named and len(now_mounted.get(shown, point)) < len(point):
                found.append((shown, f"no file system is mounted at {point}, which holds {shown}"))
    return found[:_MOST_PATHS]


def _path(reported: object) -> str:
    return printable(str(reported), _LONGEST_PATH)


def _summary_of(catalog: Catalog, snapshot: Snapshot) -> Mapping[str, Any]:
    run = known_run(catalog, snapshot.run)
    return {} if run is None else run.summary


_MOST: Final = 1000


def accept_runs(context: DirectorContext, run: Run, who: str) -> list[Run]:
    """Accept a run and those of its job and client after it; the oldest first. Blocks."""
    wanted = RunFilter(
        job=run.job,
        client=run.client,
        after_ns=run.scheduled_ns,
        states=("incomplete",),
        limit=_MOST,
    )
    short = [one for one in find_runs(context.catalog, wanted) if shortfalls_of(one.summary)]
    return [_accept(context, one, who) for one in sorted(short, key=lambda one: one.scheduled_ns)]


def _accept(context: DirectorContext, run: Run, who: str) -> Run:
    lacks = 0
    try:
        snapshot = load_snapshot(context.catalog, run.snapshot)
        lacks = max(0, snapshot.missing_paths - len(shortfalls_of(run.summary)))
        note_accepted(context.catalog, snapshot.id, lacks)
    except SnapshotNotFoundError:
        pass  # it was removed meanwhile
    summary = {name: value for name, value in run.summary.items() if name != FIELD}
    changes = {"summary": summary, "state": "incomplete" if lacks or run.errors else "done"}
    line = NewLine(clock.now_ns(), "info", f"{who} accepted that it holds less than before")
    changed, _ = change_run(context.catalog, run.id, changes, [line])
    return changed
