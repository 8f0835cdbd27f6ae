"""The rows that a scan found, and what a backup tells of them: which it takes, and why not all."""

from __future__ import annotations

import stat
from array import array
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from strongroom.engine.backup.scanned_rows import ROOT_NAME
from strongroom.engine.filesets.exclusions import Selection
from strongroom.engine.filesets.rules import FileSetSelection
from strongroom.engine.rows.left_out import NOT_ENTERED as PLACE_NOT_ENTERED
from strongroom.engine.rows.left_out import SPECIAL
from strongroom.engine.rows.rows import COLUMN_COUNT, DEVICE, INODE, SIZE
from strongroom.engine.rows.views import join_path
from strongroom.engine.scan.share_folders import is_searchable

# The rows of a directory that a scan found, and what is left out of them.


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
                left_out[names[row]] = PLACE_NOT_ENTERED
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


NEW: Final = "new"
CHANGED: Final = "changed"
UNCHANGED: Final = "unchanged"
LEFT_OUT: Final = "left out"
NOT_ENTERED: Final = "not entered"


class ExaminedEntry(NamedTuple):
    """action: one of the words above. reason: why it is left out or not entered, else ""."""

    action: str
    path: bytes
    reason: str


def left_out(
    selection: Selection | FileSetSelection | None,
    path: bytes,
    found: FoundRows,
    kept: Sequence[bool] | None,
) -> list[ExaminedEntry]:
    """What of a directory, which is the working directory, gets no row."""
    entries = []
    for row, (name, mode) in enumerate(zip(found.names, found.modes, strict=True)):
        reason = ""
        if stat.S_ISSOCK(mode):
            reason = "a socket"
        elif kept is not None and not kept[row] and selection is not None:
            reason = selection.reason(path, name, mode, found.flat[row * COLUMN_COUNT + SIZE])
        if reason:
            entries.append(ExaminedEntry(LEFT_OUT, join_path(path, name), reason))
    return entries


def taken(
    path: bytes,
    found: FoundRows,
    changed: Collection[int],
    known: Collection[bytes],
    devices: frozenset[int] | None,
) -> list[ExaminedEntry]:
    """What of a directory gets a row; `changed`: rows that differ from those of names `known`."""
    entries = []
    for row, (name, mode) in enumerate(zip(found.names, found.modes, strict=True)):
        if name == ROOT_NAME:
            continue
        action = UNCHANGED
        if row in changed:
            action = CHANGED if name in known else NEW
        whole = join_path(path, name)
        entries.append(ExaminedEntry(action, whole, ""))
        if not stat.S_ISDIR(mode):
            continue
        device = found.flat[row * COLUMN_COUNT + DEVICE]
        if devices is not None and device not in devices:
            entries.append(ExaminedEntry(NOT_ENTERED, whole, "another file system"))
        elif name in found.left:
            entries.append(
                ExaminedEntry(
                    NOT_ENTERED, whole, "the repository, or the FileSet does not enter it"
                )
            )
    return entries
