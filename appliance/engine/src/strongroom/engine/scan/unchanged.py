"""Compare live rows with the parent snapshot's, and reuse what is unchanged.

`merge_unchanged` contains the complete test of a row; it is the only place that decides that a
file need not be read.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from strongroom.engine.rows.rows import (
    BLOCK_ID_BYTES,
    COLUMN_COUNT,
    CTIME_NS,
    DEVICE,
    RDEV,
    ROW_BYTES,
    Buffer,
    Rows,
    part_starts,
    zero_array,
)

# mode to ino stand together at the front of a row and rdev at its end, so the columns that
# decide whether a row is unchanged are two slices; dev and nlink in between do not count.
_HEAD_BYTES: Final = 8 * DEVICE
_RDEV_OFFSET: Final = 8 * RDEV


class Content(msgspec.Struct):
    """The result of reading one changed file: references to its chunks, and its signature."""

    part_blocks: bytes
    part_slots: array[int]
    signature: bytes = b""


def newest_ctime_ns(stats: Buffer) -> int:
    """The greatest ctime_ns of the rows; the least int64 when there is none."""
    column = memoryview(stats).cast("B").cast("q")[CTIME_NS::COLUMN_COUNT]
    return max(column.tolist(), default=-(1 << 63))


def merge_unchanged(names: bytes, stats: Buffer, parent: Rows, recent_limit_ns: int) -> list[int]:
    """For each row of `names` and `stats` the row of `parent` it equals, or -1.

    Equal means name, mode, uid, gid, size, mtime, ctime, inode and rdev. A row whose ctime is
    not before `recent_limit_ns`, or whose parent row is not WHOLE, never equals.
    No rows give [].
    """
    live = memoryview(stats).cast("B").tobytes()
    row_count = len(live) // ROW_BYTES
    if names == parent.names and row_count == parent.row_count:
        pairs: Any = range(row_count)
    else:
        places = dict(zip(parent.name_list(), range(parent.row_count), strict=True))
        live_names = names.split(b"\0") if row_count else []
        pairs = [places.get(name, -1) for name in live_names]
    before = parent.stats
    matches = [
        row
        if row >= 0
        and live[start : start + _HEAD_BYTES]
        == before[row * ROW_BYTES : row * ROW_BYTES + _HEAD_BYTES]
        and live[start + _RDEV_OFFSET : start + ROW_BYTES]
        == before[row * ROW_BYTES + _RDEV_OFFSET : (row + 1) * ROW_BYTES]
        else -1
        for row, start in zip(pairs, range(0, row_count * ROW_BYTES, ROW_BYTES), strict=True)
    ]
    if newest_ctime_ns(live) >= recent_limit_ns:
        ctimes = memoryview(live).cast("q")[CTIME_NS::COLUMN_COUNT]
        for row, ctime_ns in enumerate(ctimes.tolist()):
            if ctime_ns >= recent_limit_ns:
                matches[row] = -1
    if parent.states:
        matches = [-1 if row in parent.states else row for row in matches]
    return matches


def take(rows: Rows, parent: Rows, matches: Sequence[int], contents: Mapping[int, Content]) -> None:
    """Fill in the content of `rows`: from `parent` where matches[row] >= 0, else `contents`.

    Copies content references, link targets, attributes, flags, extents and signatures of the
    matched rows; link targets, attributes, flags, states and extents that `rows` has for its
    other rows stay. Unmatched rows that `contents` does not name have no content.
    `rows.signature_name` must be set beforehand; a parent with another one gives zeros.
    """
    if not contents and rows.row_count == parent.row_count and _is_identity(matches):
        _take_all(rows, parent)
        return
    for mine, theirs in (
        (rows.targets, parent.targets),
        (rows.xattrs, parent.xattrs),
        (rows.flags, parent.flags),
        (rows.extents, parent.extents),
    ):
        _take_sparse(mine, theirs, matches)
    _take_parts(rows, parent, matches, contents)
    _take_signatures(rows, parent, matches, contents)


def _is_identity(matches: Sequence[int]) -> bool:
    return all(row == place for place, row in enumerate(matches))


def _take_all(rows: Rows, parent: Rows) -> None:
    rows.targets = parent.targets
    rows.xattrs = parent.xattrs
    rows.flags = parent.flags
    rows.extents = parent.extents
    rows.part_counts = parent.part_counts
    rows.part_blocks = parent.part_blocks
    rows.part_slots = parent.part_slots
    if rows.signature_name == parent.signature_name:
        rows.signatures = parent.signatures
    else:
        _take_signatures(rows, parent, range(rows.row_count), {})


def _take_sparse(mine: dict[int, Any], theirs: Mapping[int, Any], matches: Sequence[int]) -> None:
    if not theirs:
        return
    for row, place in enumerate(matches):
        if place in theirs:
            mine[row] = theirs[place]


def _take_parts(
    rows: Rows, parent: Rows, matches: Sequence[int], contents: Mapping[int, Content]
) -> None:
    starts = part_starts(parent)
    counts = parent.part_counts
    new_counts = zero_array("I", rows.row_count)
    blocks: list[bytes] = []
    slots = array("H")
    row = 0
    while row < rows.row_count:
        place = matches[row]
        if place < 0:
            content = contents.get(row)
            if content is not None:
                new_counts[row] = len(content.part_slots)
                blocks.append(content.part_blocks)
                slots.extend(content.part_slots)
            row += 1
            continue
        # Neighbours that were neighbours before are copied as one run.
        length = 1
        while row + length < rows.row_count and matches[row + length] == place + length:
            length += 1
        new_counts[row : row + length] = counts[place : place + length]
        first, end = starts[place], starts[place + length]
        blocks.append(parent.part_blocks[first * BLOCK_ID_BYTES : end * BLOCK_ID_BYTES])
        slots.extend(parent.part_slots[first:end])
        row += length
    rows.part_counts = new_counts
    rows.part_blocks = b"".join(blocks)
    rows.part_slots = slots


def _take_signatures(
    rows: Rows, parent: Rows, matches: Sequence[int], contents: Mapping[int, Content]
) -> None:
    size = max((len(content.signature) for content in contents.values()), default=0)
    old = b""
    if parent.signature_name == rows.signature_name:
        old = parent.signatures
        size = size or parent.signature_bytes
    if not size:
        rows.signatures = b""
        return
    zeros = bytes(size)
    rows.signatures = b"".join(
        [
            (old[place * size : (place + 1) * size] or zeros)
            if place >= 0
            else contents[row].signature or zeros
            if row in contents
            else zeros
            for row, place in enumerate(matches)
        ]
    )
