"""Whether a backup holds far less than those before it: a disk that is not mounted, an empty dump.

Such a run is `incomplete`, is told, and its snapshot displaces none in retention, as one that lacks
a named path: until a run holds as much as usual again, or an operator says that it is right now
(`strongroom accept`). It is compared with the last runs of its job that held as much as usual:

- a named path that has nothing in it, and had;
- a named path on another file system than before: what was mounted there is not;
- a tenth or less of the usual files or bytes. Files that could not be read do not count.

Where the FileSet has changed, a smaller backup is what somebody wanted; one without files is not.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any, Final

import msgspec

from strongroom.daemons.director.catalog.runs import load_run
from strongroom.daemons.director.catalog.snapshots import usual_snapshots
from strongroom.errors import UnknownNameError
from strongroom.printable import printable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from strongroom.daemons.director.catalog.database import Catalog
    from strongroom.daemons.director.catalog.snapshots import SnapshotRecord

FIELD: Final = "shortfalls"
_PART: Final = 10
# Fewer vary by themselves.
_LEAST_FILES: Final = 10
_LEAST_BYTES: Final = 64 << 10
_MOST_PATHS: Final = 20
_LONGEST_PATH: Final = 300


def shortfalls(
    catalog: Catalog, record: SnapshotRecord, summary: Mapping[str, Any]
) -> list[list[str]]:
    """What a backup is short of: pairs of a path ("" for all of it) and a sentence. Blocks."""
    usual = usual_snapshots(catalog, record)
    is_same = bool(usual)
    if not is_same:
        usual = usual_snapshots(catalog, msgspec.structs.replace(record, fileset_digest=""))
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
        found.append(["", f"it holds {readable:,} files; the last ones held {files:,}"])
    elif is_same and size >= _LEAST_BYTES and record.bytes * _PART <= size:
        found.append(["", f"it holds {record.bytes:,} bytes; the last ones held {size:,}"])
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
            (path, f"{path} has nothing in it, and had")
            for path in map(_path, is_empty)
            if path not in set(map(_path, was_empty))
        ]
    named = {path for path, _ in found}
    was_mounted, is_mounted = before.get("mounts"), now.get("mounts")
    if isinstance(was_mounted, dict) and isinstance(is_mounted, dict):
        now_mounted = {_path(path): _path(place) for path, place in is_mounted.items()}
        for path, place in was_mounted.items():
            shown, point = _path(path), _path(place)
            # One that is not there any more is told as missing.
            if shown not in named and len(now_mounted.get(shown, point)) < len(point):
                found.append((shown, f"nothing is mounted at {point}, which holds {shown}"))
    return found[:_MOST_PATHS]


def _path(reported: object) -> str:
    return printable(str(reported), _LONGEST_PATH)


def _summary_of(catalog: Catalog, snapshot: SnapshotRecord) -> Mapping[str, Any]:
    if not snapshot.run:
        return {}
    try:
        return load_run(catalog, snapshot.run).summary
    except UnknownNameError:
        return {}
