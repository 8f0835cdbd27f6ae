"""Gathers rows into tasks big enough to keep a child busy and whole blocks together.

Files that are neighbours in the listing are neighbours in blocks, so a child that gets a long
stretch of the listing decodes each block once. A task ends where the content of the next row
lies in another block than that of the last, once it is big enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from strongroom.engine.processes.channel import RowsEntry
from strongroom.engine.rows.rows import (
    BLOCK_ID_BYTES,
    COLUMN_COUNT,
    SIZE,
    Rows,
    encode_rows,
    slice_rows,
)

# Numbers operations that finish out of order, so that some can wait for all before them.


class Marks:
    """Numbers operations in the order they start; knows up to where all have ended."""

    def __init__(self) -> None:
        self._next = 0
        self._open: dict[int, int] = {}

    def begin(self) -> int:
        """The number of an operation that starts now; it ends by one `end`."""
        self._next += 1
        self._open[self._next] = 1
        return self._next

    def hold(self, number: int) -> None:
        """The operation with this number needs one more `end`."""
        self._open[number] += 1

    def end(self, number: int) -> None:
        """One part of the operation with this number has ended."""
        self._open[number] -= 1
        if not self._open[number]:
            del self._open[number]

    def has_ended(self, number: int) -> bool:
        """Whether everything up to `number` has ended."""
        return next(iter(self._open), self._next + 1) > number


TASK_BYTES: Final = 24 << 20
TASK_ROWS: Final = 8192
# The first tasks are so much smaller, for all children to begin soon, and so are the last ones, for
# them to end together.
_SMALLER: Final = 8
# At most this much beyond the above, wherever the blocks end.
_SLACK: Final = 2


class Windows:
    """Collects rows of directories and submits them as tasks.

    `submit(entries, marks, row count, bytes)` takes a whole task. total_bytes: about what there is
    in all, for so many `children`; 0 where that is not known.
    """

    def __init__(
        self,
        submit: Callable[[list[RowsEntry], list[int], int, int], None],
        marks: Marks,
        total_bytes: int = 0,
        children: int = 1,
    ) -> None:
        self._submit = submit
        self._children = children
        self._left_bytes = total_bytes
        self._tasks = 0
        self._part = 1.0
        self._choose_part()
        self._marks = marks
        self._held: list[int] = []
        self._entries: list[RowsEntry] = []
        self._bytes = 0
        self._rows = 0
        self._last_block = b""

    def add(
        self,
        place: bytes,
        rows: Rows,
        skipped: set[int],
        content_bytes: int,
        *,
        is_new: bool,
        mark: int = 0,
    ) -> None:
        """More rows, in listing order, that hold `content_bytes` apart from those skipped.

        A `mark` that is not 0 ends only when all of them are done.
        """
        if content_bytes <= TASK_BYTES * _SLACK:
            self._add(place, rows, skipped, content_bytes, is_new, mark)
            return
        for start, stop, size in _stretches(rows, skipped):
            inside = {number - start for number in skipped if start <= number < stop}
            self._add(place, slice_rows(rows, start, stop), inside, size, is_new, mark)

    def flush(self) -> None:
        """Submit what has been collected."""
        if self._entries:
            entries, self._entries = self._entries, []
            row_count, self._rows = self._rows, 0
            content_bytes, self._bytes = self._bytes, 0
            self._left_bytes -= content_bytes
            self._tasks += 1
            self._choose_part()
            marks, self._held = self._held, []
            self._submit(entries, marks, row_count, content_bytes)

    def _add(
        self,
        place: bytes,
        rows: Rows,
        skipped: set[int],
        content_bytes: int,
        is_new: bool,
        mark: int,
    ) -> None:
        if self._is_full(1) and (
            self._is_full(_SLACK) or rows.part_blocks[:BLOCK_ID_BYTES] != self._last_block
        ):
            self.flush()
        self._entries.append(RowsEntry(place, is_new, sorted(skipped), encode_rows(rows)))
        if mark:
            self._marks.hold(mark)
            self._held.append(mark)
        self._rows += rows.row_count
        self._bytes += content_bytes
        if rows.part_blocks:
            self._last_block = rows.part_blocks[-BLOCK_ID_BYTES:]

    def _is_full(self, factor: int) -> bool:
        part = self._part * factor
        return self._bytes >= TASK_BYTES * part or self._rows >= TASK_ROWS * part

    def _choose_part(self) -> None:
        """How large the next task is, as a part of the usual size."""
        if self._tasks < self._children:
            self._part = 1 / _SMALLER
        else:
            ahead = self._left_bytes / (2 * self._children * TASK_BYTES)
            self._part = min(1.0, max(1 / _SMALLER, ahead)) if self._left_bytes > 0 else 1.0


def _stretches(rows: Rows, skipped: set[int]) -> Iterator[tuple[int, int, int]]:
    """(start, stop, bytes) of consecutive rows of about TASK_BYTES."""
    sizes = memoryview(rows.stats).cast("q")[SIZE::COLUMN_COUNT].tolist()
    start = total = 0
    for number, size in enumerate(sizes):
        if number not in skipped:
            total += max(0, size)
        if total >= TASK_BYTES:
            yield start, number + 1, total
            start, total = number + 1, 0
    if start < len(sizes):
        yield start, len(sizes), total
