"""The rows of a directory that a scan found, and what is left out of them."""

from __future__ import annotations

import stat
from array import array
from typing import TYPE_CHECKING, NamedTuple

from strongroom.jobs.backup.scanned_rows import ROOT_NAME
from strongroom.rows.left_out import NOT_ENTERED, SPECIAL
from strongroom.rows.rows import COLUMN_COUNT, DEVICE, INODE
from strongroom.scan.share_folders import is_searchable

if TYPE_CHECKING:
    from collections.abc import Mapping


class FoundRows(NamedTuple):
    """Rows of a directory that are kept: names, flat stat columns, modes.

    left: directories that are kept but not entered. treatments: a byte a row, or None. noted: as
    of `Judgement`.
    """

    names: list[bytes]
    flat: array[int]
    modes: list[int]
    left: frozenset[bytes] = frozenset()
    treatments: bytes | None = None
    noted: Mapping[bytes, int] = {}


class FoundDirectories(NamedTuple):
    """Names of directories to enter; closed: those of them that others may not search.

    left_out: what else is left out in the directory, as of `rows.left_out`.
    """

    names: list[bytes]
    closed: list[bytes]
    left_out: dict[bytes, int]


def names_of_inode(found: FoundRows, device: int, inode: int) -> frozenset[bytes]:
    """The names of one inode among the rows, few or none."""
    inodes = found.flat[INODE::COLUMN_COUNT]
    if inode not in inodes:
        return frozenset()
    devices = found.flat[DEVICE::COLUMN_COUNT]
    rows = zip(found.names, devices, inodes, strict=True)
    return frozenset(name for name, *where in rows if where == [device, inode])


def directories_of(found: FoundRows, devices: frozenset[int] | None) -> FoundDirectories:
    """The directories among the rows, of those on one of `devices` if given."""
    names, flat, modes, left, _, noted = found
    rows = [row for row, mode in enumerate(modes) if mode & 0o170000 == 0o040000]
    every = rows
    if devices is not None:
        rows = [row for row in rows if flat[row * COLUMN_COUNT + DEVICE] in devices]
    if left:
        rows = [row for row in rows if names[row] not in left]
    left_out = dict(noted)
    if len(rows) < len(every):
        entered = frozenset(rows)
        for row in every:
            if row not in entered and names[row] != ROOT_NAME:
                left_out[names[row]] = NOT_ENTERED
    return FoundDirectories(
        [names[row] for row in rows if names[row] != ROOT_NAME],
        [names[row] for row in rows if not is_searchable(modes[row])],
        left_out,
    )


def without(found: FoundRows, keep: list[bool] | None) -> FoundRows:
    """Leave out sockets and, if `keep` is given, rows for which it is False."""
    names, flat, modes, left, treatments, noted = found
    has_sockets = any(stat.S_ISSOCK(mode) for mode in set(modes))
    if keep is None:
        if not has_sockets:
            return found
        keep = [True] * len(modes)
    rows = [
        row
        for row, (kept, mode) in enumerate(zip(keep, modes, strict=True))
        if kept and not stat.S_ISSOCK(mode)
    ]
    if has_sockets:
        sockets = [name for name, mode in zip(names, modes, strict=True) if stat.S_ISSOCK(mode)]
        noted = {**noted, **dict.fromkeys(sockets, SPECIAL)}
    kept_flat = array("q")
    for row in rows:
        kept_flat.extend(flat[row * COLUMN_COUNT : (row + 1) * COLUMN_COUNT])
    if treatments is not None:
        treatments = bytes([treatments[row] for row in rows])
    return FoundRows(
        [names[row] for row in rows],
        kept_flat,
        [modes[row] for row in rows],
        left,
        treatments,
        noted,
    )
