"""One row as a light tuple, for whoever shows or restores rows one at a time.

Paths are bytes, relative to "/", without a leading or trailing slash; b"" is the root.
"""

from __future__ import annotations

import stat
import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from strongroom.scan.rows import BLOCK_ID_BYTES, COLUMN_COUNT, ROW_BYTES, WHOLE, Rows, part_starts

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    extents: list[tuple[int, int]] | None
    parts: tuple[tuple[bytes, int], ...]
    signature: bytes

    @property
    def path(self) -> bytes:
        """Where the row stands, from the root."""
        return join_path(self.directory, self.name)

    @property
    def hard_link_key(self) -> tuple[int, int] | None:
        """(dev, ino) of a row that has several names; None for directories and single names."""
        if self.link_count < 2 or stat.S_ISDIR(self.mode):
            return None
        return self.device, self.inode


def views(rows: Rows, start: int = 0, stop: int | None = None) -> Iterator[RowView]:
    """The rows from `start` to `stop` (default: all), in order."""
    end = rows.row_count if stop is None else min(stop, rows.row_count)
    names = rows.name_list()
    starts = part_starts(rows)
    slots, blocks = rows.part_slots, rows.part_blocks
    targets, xattrs, flags = rows.targets.get, rows.xattrs.get, rows.flags.get
    states, extents = rows.states.get, rows.extents.get
    size = rows.signature_bytes
    columns = memoryview(rows.stats)[start * ROW_BYTES : max(start, end) * ROW_BYTES]
    for row, numbers in enumerate(_ROW.iter_unpack(columns), start):
        mode, uid, gid, length, mtime_ns, ctime_ns, inode, device, link_count, rdev = numbers
        first, last = starts[row], starts[row + 1]
        parts = tuple(
            [
                (blocks[part * BLOCK_ID_BYTES : (part + 1) * BLOCK_ID_BYTES], slots[part])
                for part in range(first, last)
            ]
        )
        yield RowView(
            rows.directory,
            names[row],
            mode,
            uid,
            gid,
            length,
            mtime_ns,
            ctime_ns,
            inode,
            device,
            link_count,
            rdev,
            targets(row, b""),
            xattrs(row, b""),
            flags(row, 0),
            states(row, WHOLE),
            extents(row),
            parts,
            rows.signatures[row * size : (row + 1) * size],
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
