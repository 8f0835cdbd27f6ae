"""One row as a light tuple, for code that shows or restores rows one at a time.

Paths are bytes, relative to "/", without a leading or trailing slash; b"" is the root.
"""

from __future__ import annotations

import stat
import struct
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from strongroom.engine.rows.rows import (
    BLOCK_ID_BYTES,
    COLUMN_COUNT,
    ROW_BYTES,
    WHOLE,
    Rows,
    part_starts,
)

_ROW: Final = struct.Struct(f"<{COLUMN_COUNT}q")


class RowView(NamedTuple):
    """A row of a listing; the fields up to `rdev` after `name` are the stat columns in order."""

    directory: bytes
    name: bytes
    mode: int
    uid: int
    gid: int
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    device: int
    link_count: int
    rdev: int
    target: bytes
    xattrs: bytes
    flags: int
    state: int
    extents: Sequence[tuple[int, int]] | None
    parts: tuple[tuple[bytes, int], ...]
    signature: bytes

    @property
    def path(self) -> bytes:
        """The path of the row from the root."""
        return join_path(self.directory, self.name)

    @property
    def hard_link_key(self) -> tuple[int, int] | None:
        """(dev, ino) of a row that has several names; None for directories and single names."""
        if self.link_count < 2 or stat.S_ISDIR(self.mode):
            return None
        return self.device, self.inode


class RowReader:
    """Rows prepared for reading many of them one by one; the Rows must not change."""

    __slots__ = ("_rows", "_signature_bytes", "_starts", "names")

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._starts = part_starts(rows)
        self._signature_bytes = rows.signature_bytes
        self.names = rows.name_list()

    def view(self, row: int) -> RowView:
        """Row number `row`, from 0."""
        rows = self._rows
        first, end = self._starts[row], self._starts[row + 1]
        size = self._signature_bytes
        return RowView(
            rows.directory,
            self.names[row],
            *_ROW.unpack_from(rows.stats, row * ROW_BYTES),  # type: ignore[call-arg]
            rows.targets.get(row, b""),
            rows.xattrs.get(row, b""),
            rows.flags.get(row, 0),
            rows.states.get(row, WHOLE),
            rows.extents.get(row),
            _parts(rows, first, end) if end > first else (),
            rows.signatures[row * size : (row + 1) * size],
        )

    def find(self, name: bytes) -> RowView | None:
        """The row called `name`, if there is one."""
        row = bisect_left(self.names, name)
        if row < len(self.names) and self.names[row] == name:
            return self.view(row)
        return None


def views(rows: Rows, start: int = 0, stop: int | None = None) -> Iterator[RowView]:
    """The rows from `start` to `stop` (default: all), in order."""
    end = rows.row_count if stop is None else min(stop, rows.row_count)
    return map(RowReader(rows).view, range(start, end))


def _parts(rows: Rows, first: int, end: int) -> tuple[tuple[bytes, int], ...]:
    blocks, slots = rows.part_blocks, rows.part_slots
    return tuple(
        [
            (blocks[part * BLOCK_ID_BYTES : (part + 1) * BLOCK_ID_BYTES], slots[part])
            for part in range(first, end)
        ]
    )


def join_path(directory: bytes, name: bytes) -> bytes:
    """The path of `name` in `directory`."""
    return directory + b"/" + name if directory else name


def split_path(path: bytes) -> tuple[bytes, bytes]:
    """The directory and the name of `path`, which is not the root."""
    directory, _, name = path.rpartition(b"/")
    return directory, name


def path_key(path: bytes) -> bytes:
    """Sorts paths in listing order: a directory, then its sub-tree, contiguous."""
    return path.replace(b"/", b"\0")
