"""How many entries of each kind some rows have, as the totals of a snapshot count them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from strongroom.engine.rows.rows import (
    COLUMN_COUNT,
    LARGEST_BYTES,
    MODE,
    MTIME_NS,
    SIZE,
    Buffer,
    Rows,
    bytes_together,
)

_TIMES: Final = np.iinfo(np.int64)
_FORMAT: Final = 0o170000
_REGULAR: Final = 0o100000
_DIRECTORY: Final = 0o040000


class EntryCounts(NamedTuple):
    """Regular files, directories, all else; and the bytes of the regular files."""

    files: int = 0
    directories: int = 0
    others: int = 0
    content_bytes: int = 0

    def plus(self, other: EntryCounts) -> EntryCounts:
        """Both together."""
        return EntryCounts(
            self.files + other.files,
            self.directories + other.directories,
            self.others + other.others,
            bytes_together((self.content_bytes, other.content_bytes)),
        )


def count_files(stats: Buffer) -> tuple[int, int]:
    """How many of some rows are regular files, and the sizes of those together."""
    columns = np.frombuffer(stats, "<i8").reshape(-1, COLUMN_COUNT)
    sizes = columns[:, SIZE][columns[:, MODE] & _FORMAT == _REGULAR]
    return len(sizes), _sum_of(sizes)


def count_entries(groups: Sequence[Rows]) -> EntryCounts:
    """The counts of all rows of `groups`; sizes are added up as they are, false ones too."""
    stats = np.frombuffer(b"".join([rows.stats for rows in groups]), "<i8")
    stats = stats.reshape(-1, COLUMN_COUNT)
    formats = stats[:, MODE] & _FORMAT
    regular = formats == _REGULAR
    files = int(np.count_nonzero(regular))
    directories = int(np.count_nonzero(formats == _DIRECTORY))
    others = len(stats) - files - directories
    return EntryCounts(files, directories, others, _sum_of(stats[regular, SIZE]))


def data_sizes(rows: Rows) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The size of each row, without holes; those of rows that are not files are not content."""
    stats = np.frombuffer(rows.stats, "<i8").reshape(-1, COLUMN_COUNT)
    sizes: np.ndarray[Any, np.dtype[np.int64]] = np.maximum(stats[:, SIZE], 0)
    for row, extents in rows.extents.items():
        sizes[row] = sum(length for _, length in extents)
    return sizes


def hole_bytes(rows: Rows) -> int:
    """How much of the sizes of some rows is in holes, which cost no one anything."""
    if not rows.extents:
        return 0
    sizes = memoryview(rows.stats).cast("q")[SIZE::COLUMN_COUNT]
    return sum(
        sizes[row] - sum(length for _, length in extents) for row, extents in rows.extents.items()
    )


def strange_times(groups: Sequence[Rows]) -> list[tuple[Rows, int]]:
    """Rows with the first or the last time that fits: theirs lies beyond it."""
    stats = np.frombuffer(b"".join([rows.stats for rows in groups]), "<i8")
    times = stats.reshape(-1, COLUMN_COUNT)[:, MTIME_NS]
    found = np.flatnonzero((times == _TIMES.min) | (times == _TIMES.max))
    if len(found) and len(groups) > 1:
        return [one for rows in groups for one in strange_times([rows])]
    return [(groups[0], row) for row in found.tolist()]


def _sum_of(sizes: np.ndarray[Any, np.dtype[np.int64]]) -> int:
    if len(sizes) and int(sizes.max()) > LARGEST_BYTES // len(sizes):
        return bytes_together(sizes.tolist())
    return int(sizes.sum())
