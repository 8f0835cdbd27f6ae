"""How much work is queued at a shard, so that it neither runs dry nor keeps others from work.

Most small directories that the parent knows are unchanged, and then take less time than a message
and its answer while all cores are busy. So four times as many of them are queued as of others, of
which each may bring megabytes to read; but not where file systems answer late, as there all shards
should have some of a small tree. Of new ones twice as many are queued while plenty wait: no shard
runs dry then, and each message brings more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strongroom.rows.rows import Rows

_KNOWN_WEIGHT: Final = 1
_DIRECTORY_WEIGHT: Final = 4
# New ones, of which plenty wait: more than a few shards can hold.
_NEW_WEIGHT: Final = 2
_PLENTY: Final = 64
# Thousands of rows, and as many of the parent's.
SLICE_WEIGHT: Final = 16
READ_WEIGHT: Final = 16
# Directories queued at a shard. With several scan threads it is all that it may have in progress
# (`ScanPool.has_room`).
_DIRECTORIES: Final = 8
_DIRECTORIES_A_THREAD: Final = 2
# The coordinator holds the parent's rows of what is queued: larger directories count as others.
_FEW_ROWS: Final = 256
# After so many directories a shard with one scan thread has only file systems that answer at once.
_SOON_ENOUGH: Final = 64


def room_for(scan_threads: int) -> int:
    """The weight of what may be queued at a shard with so many scan threads."""
    return _DIRECTORY_WEIGHT * max(_DIRECTORIES, _DIRECTORIES_A_THREAD * scan_threads)


def is_quick(scan_threads: int, scanned_directories: int) -> bool:
    """Whether the file systems of a shard answer at once, as far as is known."""
    return scan_threads == 1 and scanned_directories >= _SOON_ENOUGH


def directory_weight(parent: Sequence[Rows], *, quick: bool, waiting: int) -> int:
    """The weight of a directory of which the parent has these rows.

    quick: whether the shard it is queued at `is_quick`. waiting: other tasks that are not queued.
    """
    if not quick:
        return _DIRECTORY_WEIGHT
    if parent:
        is_small = sum(rows.row_count for rows in parent) <= _FEW_ROWS
        return _KNOWN_WEIGHT if is_small else _DIRECTORY_WEIGHT
    return _NEW_WEIGHT if waiting >= _PLENTY else _DIRECTORY_WEIGHT
