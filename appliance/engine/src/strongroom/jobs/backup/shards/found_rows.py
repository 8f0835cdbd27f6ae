"""The rows of a directory that a scan found, and what is left out of them."""

from __future__ import annotations

import stat
from array import array
from typing import NamedTuple

from strongroom.jobs.backup.scanned_rows import ROOT_NAME
from strongroom.rows.rows import COLUMN_COUNT, DEVICE
from strongroom.scan.share_folders import is_searchable


class FoundRows(NamedTuple):
    """Rows of a directory that are kept: names, flat stat columns, modes.

    left: directories that are kept but not entered. treatments: a byte a row, or None.
    """

    names: list[bytes]
    flat: array[int]
    modes: list[int]
    left: frozenset[bytes] = frozenset()
    treatments: bytes | None = None


class FoundDirectories(NamedTuple):
    """Names of directories; closed: those of them that others may not search."""

    names: list[bytes]
    closed: list[bytes]


def directories_of(found: FoundRows, devices: frozenset[int] | None) -> FoundDirectories:
    """The directories among the rows, of those on one of `devices` if given."""
    names, flat, modes, left, _ = found
    rows = [row for row, mode in enumerate(modes) if mode & 0o170000 == 0o040000]
    if devices is not None:
        rows = [row for row in rows if flat[row * COLUMN_COUNT + DEVICE] in devices]
    if left:
        rows = [row for row in rows if names[row] not in left]
    return FoundDirectories(
        [names[row] for row in rows if names[row] != ROOT_NAME],
        [names[row] for row in rows if not is_searchable(modes[row])],
    )


def without(found: FoundRows, keep: list[bool] | None) -> FoundRows:
    """Leave out sockets and, if `keep` is given, rows for which it is False."""
    names, flat, modes, left, treatments = found
    if keep is None:
        if not any(stat.S_ISSOCK(mode) for mode in set(modes)):
            return found
        keep = [True] * len(modes)
    rows = [
        row
        for row, (kept, mode) in enumerate(zip(keep, modes, strict=True))
        if kept and not stat.S_ISSOCK(mode)
    ]
    kept_flat = array("q")
    for row in rows:
        kept_flat.extend(flat[row * COLUMN_COUNT : (row + 1) * COLUMN_COUNT])
    if treatments is not None:
        treatments = bytes([treatments[row] for row in rows])
    return FoundRows(
        [names[row] for row in rows], kept_flat, [modes[row] for row in rows], left, treatments
    )
