"""Content of a directory that is read by several shards: splitting it up, and joining the results.

A shard that scans a directory reads only a share of its content itself and leaves the other rows
*deferred*. Those become content tasks of about `TASK_BYTES`, which any shard can take; a file
larger than `SEGMENT_BYTES` becomes several tasks, one for each range of it. Ranges begin at fixed
offsets, so after an insertion they cost deduplication at most one chunk on each side. A file may
be as large as it says without holding anything: its ranges are as long as a bounded number of them
has to be. With a signature a file is one task, because only BLAKE3 can be computed in parts.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from strongroom.engine.backup.scanned_rows import VANISHED
from strongroom.engine.rows.rows import (
    BLOCK_ID_BYTES,
    CHANGED,
    COLUMN_COUNT,
    ROW_BYTES,
    SIZE,
    UNREADABLE,
    WHOLE,
    Rows,
    part_starts,
    zero_array,
)
from strongroom.engine.scan.unchanged import Content, take
from strongroom.sources.source import Problem

TASK_BYTES: Final = 32 << 20
TASK_FILES: Final = 2048
SEGMENT_BYTES: Final = 256 << 20
MOST_SEGMENTS: Final = 4096


class ContentTask(NamedTuple):
    """Rows to read, all of one directory; with a range, one row and (offset, length) of it."""

    rows: tuple[int, ...]
    byte_range: tuple[int, int] | None


class DeferredContent:
    """The deferred rows of one directory, until all of them are read."""

    def __init__(
        self, rows: Rows, deferred: list[int], tallied_files: int, read_bytes: int
    ) -> None:
        """tallied_files, read_bytes: what of the directory a ShardTally has counted already."""
        self.tallied_files = tallied_files
        self.read_bytes = read_bytes
        self._rows = rows
        self._names = rows.name_list()
        self._sizes = memoryview(rows.stats).cast("q")[SIZE::COLUMN_COUNT].tolist()
        self.tasks = list(self._split(deferred))
        self._results: list[Rows | None] = [None] * len(self.tasks)
        self._missing = len(self.tasks)
        self._reported: set[Problem] = set()

    def names_and_stats(self, number: int) -> tuple[bytes, bytes]:
        """Joined names and stat rows of task `number`."""
        rows = self.tasks[number].rows
        stats = self._rows.stats
        return (
            b"\0".join([self._names[row] for row in rows]),
            b"".join([stats[row * ROW_BYTES : (row + 1) * ROW_BYTES] for row in rows]),
        )

    def settle(self, number: int, result: Rows) -> Rows | None:
        """Add the result of a task; returns the complete rows after the last one."""
        self._results[number] = result
        self._missing -= 1
        return None if self._missing else self._joined()

    def first_reported(self, problems: list[Problem]) -> list[Problem]:
        """Problems not reported yet: each range of one file may report the same one."""
        new = [problem for problem in problems if problem not in self._reported]
        self._reported.update(problems)
        return new

    def _split(self, deferred: list[int]) -> Iterator[ContentTask]:
        pending: list[int] = []
        pending_bytes = 0
        can_split = self._rows.signature_name == "none"
        for row in deferred:
            size = self._sizes[row]
            if can_split and size > SEGMENT_BYTES:
                step = SEGMENT_BYTES
                while step * MOST_SEGMENTS < size:
                    step *= 2
                for offset in range(0, size, step):
                    yield ContentTask((row,), (offset, min(step, size - offset)))
                continue
            pending.append(row)
            pending_bytes += size
            if pending_bytes >= TASK_BYTES or len(pending) >= TASK_FILES:
                yield ContentTask(tuple(pending), None)
                pending = []
                pending_bytes = 0
        if pending:
            yield ContentTask(tuple(pending), None)

    def _joined(self) -> Rows:
        old = self._rows
        stats = bytearray(old.stats)
        contents: dict[int, Content] = {}
        flags = dict(old.flags)
        states = dict(old.states)
        extents = dict(old.extents)
        ranges = _Ranges()
        for task, result in zip(self.tasks, self._results, strict=True):
            assert result is not None
            starts = part_starts(result)
            result_sizes = memoryview(result.stats).cast("q")[SIZE::COLUMN_COUNT].tolist()
            size = result.signature_bytes
            for place, row in enumerate(task.rows):
                first, last = starts[place], starts[place + 1]
                content = contents.setdefault(row, Content(b"", array("H")))
                content.part_blocks += result.part_blocks[
                    first * BLOCK_ID_BYTES : last * BLOCK_ID_BYTES
                ]
                content.part_slots.extend(result.part_slots[first:last])
                content.signature = result.signatures[place * size : (place + 1) * size]
                if task.byte_range is None:
                    stats[row * ROW_BYTES : (row + 1) * ROW_BYTES] = result.stats[
                        place * ROW_BYTES : (place + 1) * ROW_BYTES
                    ]
                if place in result.flags:
                    flags[row] = result.flags[place]
                if place in result.states:
                    states[row] = max(states.get(row, 0), result.states[place], key=_severity)
                if task.byte_range is not None:
                    # The size in a range's result is the number of bytes read.
                    read_bytes = result_sizes[place]
                    ranges.add(row, task.byte_range[0], read_bytes, result.extents.get(place))
                elif place in result.extents:
                    extents[row] = result.extents[place]
        extents.update(ranges.sparse_extents())
        for row, content in contents.items():
            if states.get(row, WHOLE) not in (WHOLE, CHANGED):
                content.part_blocks, content.part_slots = b"", array("H")
                extents.pop(row, None)
            elif row not in extents and row in ranges.read_bytes:
                size_bytes = ranges.read_bytes[row]
                struct.pack_into("<q", stats, row * ROW_BYTES + 8 * SIZE, size_bytes)
        rows = Rows(
            old.directory,
            old.names,
            old.row_count,
            bytes(stats),
            zero_array("I", old.row_count),
            signature_name=old.signature_name,
        )
        matches = [-1 if row in contents else row for row in range(old.row_count)]
        take(rows, old, matches, contents)
        rows.targets, rows.xattrs = old.targets, old.xattrs
        rows.flags, rows.states, rows.extents = flags, states, extents
        return rows


class _Ranges:
    """Results of files that are read in several ranges, in order of the ranges."""

    def __init__(self) -> None:
        self.read_bytes: dict[int, int] = {}
        self._extents: dict[int, list[tuple[int, int]]] = {}
        self._sparse: set[int] = set()

    def add(
        self, row: int, offset: int, read_bytes: int, extents: Sequence[tuple[int, int]] | None
    ) -> None:
        """A range of `row` from `offset` on; `extents` when the file was found to be sparse."""
        self.read_bytes[row] = self.read_bytes.get(row, 0) + read_bytes
        if extents is not None:
            self._sparse.add(row)
        else:
            extents = [(offset, read_bytes)] if read_bytes else []
        _append_extents(self._extents.setdefault(row, []), extents)

    def sparse_extents(self) -> dict[int, list[tuple[int, int]]]:
        """Extents of the files of which a range was sparse; holes may have changed."""
        return {row: self._extents[row] for row in self._sparse}


def _severity(state: int) -> int:
    return (WHOLE, CHANGED, UNREADABLE, VANISHED).index(state)


def _append_extents(before: list[tuple[int, int]], after: Sequence[tuple[int, int]]) -> None:
    """Add the extents of the next range; the two that meet become one.

    In place: a file of a terabyte has thousands of ranges, and may have more extents.
    """
    start = 0
    if before and after and sum(before[-1]) == after[0][0]:
        before[-1] = (before[-1][0], before[-1][1] + after[0][1])
        start = 1
    before.extend((offset, length) for offset, length in after[start:])
