"""What a backup tells of single entries if it is asked: which it takes, and why not the others."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING, Final, NamedTuple

from strongroom.jobs.backup.scanned_rows import ROOT_NAME
from strongroom.rows.rows import COLUMN_COUNT, DEVICE, SIZE
from strongroom.rows.views import join_path

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from strongroom.filesets.exclusions import Selection
    from strongroom.filesets.rules import FileSetSelection
    from strongroom.jobs.backup.shards.found_rows import FoundRows

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
