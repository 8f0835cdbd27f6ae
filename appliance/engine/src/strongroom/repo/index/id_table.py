"""A table from ids (16, 24 or 32 bytes of digest) to numbers, compact and searched in batches.

Sorted runs of numpy columns, merged geometrically, each with a directory by the leading bits of its
ids, and a dictionary of the latest additions. An entry takes the id, 8 bytes, and one or two for
the directory; a batch takes a few steps over whole arrays for each run, of which there are few.
"""

from __future__ import annotations

import struct
from itertools import repeat
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

RECENT_LIMIT = 16384
# A dictionary answers small batches several times as fast as a run, and takes five times the
# memory: a table that is small has nothing else.
FIRST_LIMIT = 131_072
# A run is merged with the one before it unless that is this many times longer.
_MERGE_FACTOR = 3
# Entries compared at once, from the start of a directory slot (which has 2 to 4 on average).
_WINDOW = np.arange(8, dtype=np.uint32)


class _SortedRun:
    """Entries in the order of the first word of their ids."""

    __slots__ = ("_directory", "_first", "_rest", "_shift", "values")

    def __init__(self, columns: list[NDArray[np.uint64]], values: NDArray[np.int64]) -> None:
        """`columns`: the 8-byte words of the ids, one column after the other; owned by the run.

        Equal ids stay in their order.
        """
        order = np.argsort(columns[0], kind="stable")
        values = values[order]
        # One column at a time: a second copy of millions of ids is too much memory.
        for number, column in enumerate(columns):
            columns[number] = column[order]
            del column
        del order
        self._first, *self._rest = columns
        self.values = values
        bits = max(1, len(values).bit_length() - 2)
        self._shift = np.uint64(64 - bits)
        counts = np.bincount((self._first >> self._shift).astype(np.intp), minlength=1 << bits)
        self._directory = np.zeros((1 << bits) + 1, np.uint32)
        np.cumsum(counts, out=self._directory[1:])

    def __len__(self) -> int:
        return len(self.values)

    def columns(self) -> list[NDArray[np.uint64]]:
        """The words of the ids, sorted; the run must not be used afterwards."""
        columns = [self._first, *self._rest]
        del self._first, self._rest, self._directory
        return columns

    def find(
        self, words: NDArray[np.uint64], first: NDArray[np.uint64], found: NDArray[np.int64]
    ) -> None:
        """Write the values of ids found here into `found`; `first`: the first words of the ids."""
        slots = (first >> self._shift).view(np.intp)
        begins = self._directory.take(slots)
        ends = self._directory.take(slots + 1)
        # Past the end the last entry is compared again, which is harmless.
        equal = self._first.take(begins[:, None] + _WINDOW, mode="clip") == first[:, None]
        if not equal.any() and not (ends - begins > len(_WINDOW)).any():
            return
        rows, at = np.arange(len(words)), begins.astype(np.intp)
        while len(rows):
            window = at[:, None] + _WINDOW
            equal = self._first.take(window, mode="clip") == first[:, None]
            hit = equal.any(axis=1)
            if hit.any():
                self._take(words, rows[hit], (at + equal.argmax(axis=1))[hit], found)
            more = (at + len(_WINDOW) < ends) & (found[rows] < 0)
            rows, first, at, ends = rows[more], first[more], at[more] + len(_WINDOW), ends[more]

    def find_one(self, words: Sequence[int]) -> int:
        """The value of one id given as words, or -1."""
        first, *rest = words
        slot = first >> int(self._shift)
        begin, end = self._directory[slot : slot + 2].tolist()
        for at, value in enumerate(self._first[begin:end].tolist(), begin):
            if value == first and all(
                column[at] == word for column, word in zip(self._rest, rest, strict=True)
            ):
                return int(self.values[at])
        return -1

    def _take(
        self,
        words: NDArray[np.uint64],
        rows: NDArray[np.intp],
        at: NDArray[np.intp],
        found: NDArray[np.int64],
    ) -> None:
        np.minimum(at, len(self.values) - 1, out=at)
        while len(rows):
            same = self._first[at] == words[rows, 0]
            rows, at = rows[same], at[same]
            same = np.ones(len(rows), np.bool_)
            for column, rest in enumerate(self._rest, 1):
                same &= rest[at] == words[rows, column]
            found[rows[same]] = self.values[at[same]]
            # Ids with the same first word are adjacent.
            different = ~same & (at + 1 < len(self.values))
            rows, at = rows[different], at[different] + 1


class IdTable:
    """Numbers (0 or more) by id; for one thread at a time."""

    def __init__(self, id_size: int) -> None:
        """`id_size`: bytes of an id, a multiple of 8 and more than 8."""
        self._id_size = id_size
        self._item = np.dtype((np.void, id_size))
        self._unpack = struct.Struct(f"={id_size // 8}Q").unpack
        self._runs: list[_SortedRun] = []
        self._recent: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._recent) + sum(map(len, self._runs))

    def add(self, ids: bytes, values: Sequence[int]) -> None:
        """Add a few: n ids joined and n values."""
        self._add_items(np.frombuffer(ids, self._item).tolist(), values)

    def add_if_new(self, ids: bytes, values: Sequence[int]) -> bool:
        """`add`, if it is quickly said that none of the ids is in the table; whether it was."""
        if self._runs:
            return False
        items = np.frombuffer(ids, self._item).tolist()
        if not self._recent.keys().isdisjoint(items):
            return False
        self._add_items(items, values)
        return True

    def add_many(self, ids: bytes, values: NDArray[np.int64]) -> None:
        """Add many at once: n ids joined and n values; of equal ids the first is found."""
        if not len(values):
            return
        words = self._words(ids)
        self.add_columns([words[:, number].copy() for number in range(words.shape[1])], values)

    def add_columns(self, columns: list[NDArray[np.uint64]], values: NDArray[np.int64]) -> None:
        """`add_many` of ids given as columns of their 8-byte words, which the table then owns."""
        while self._runs and len(self._runs[-1]) < _MERGE_FACTOR * len(values):
            older = self._runs.pop()
            values = np.concatenate((older.values, values))
            for number, column in enumerate(older.columns()):
                columns[number] = np.concatenate((column, columns[number]))
        self._runs.append(_SortedRun(columns, values))

    def find(self, ids: bytes) -> NDArray[np.int64]:
        """The value of each id, -1 where it isn't in the table."""
        if self._runs:
            return self.find_words(self._words(ids))
        items = np.frombuffer(ids, self._item).tolist()
        return np.fromiter(map(self._recent.get, items, repeat(-1)), np.int64, len(items))

    def find_words(self, words: NDArray[np.uint64]) -> NDArray[np.int64]:
        """`find` of ids as rows of their 8-byte words."""
        found = np.empty(len(words), np.int64)
        found.fill(-1)
        first = words[:, 0].copy()
        for run in self._runs:
            run.find(words, first, found)
        recent = self._recent
        if recent:
            items = np.frombuffer(words, self._item).tolist()
            if not recent.keys().isdisjoint(items):
                for row, item in enumerate(items):
                    found[row] = recent.get(item, found[row])
        return found

    def find_one(self, an_id: bytes) -> int:
        """The value of one id, or -1."""
        value = self._recent.get(an_id, -1)
        if value < 0 and self._runs:
            words = self._unpack(an_id)
            for run in reversed(self._runs):
                value = run.find_one(words)
                if value >= 0:
                    break
        return value

    def _add_items(self, items: list[bytes], values: Sequence[int]) -> None:
        recent = self._recent
        recent.update(zip(items, values, strict=True))
        if len(recent) >= (RECENT_LIMIT if self._runs else FIRST_LIMIT):
            self.add_many(b"".join(recent), np.fromiter(recent.values(), np.int64, len(recent)))
            recent.clear()

    def _words(self, ids: bytes) -> NDArray[np.uint64]:
        return np.frombuffer(ids, np.uint64).reshape(-1, self._id_size // 8)
