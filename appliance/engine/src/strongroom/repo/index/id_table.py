"""A table from ids (16, 24 or 32 bytes of digest) to numbers, compact and searched in batches.

Sorted runs of numpy columns, merged geometrically, each with a directory by the leading bits of its
keys, and a dictionary of the latest additions. An entry takes the id, 8 bytes, one or two for the
directory, and two to four for a filter; a batch takes a few steps over whole arrays for each run,
of which there are few. Most of what a first backup asks for is in none of them: the filter says so.

The *key* of an id stands for its first word: the sum of its words, each times a random odd number
of the table. Nobody can store ids whose keys are alike, to make every search slow; and the first
word follows from key and other words, so those are what is kept and compared.
"""

from __future__ import annotations

import struct
from itertools import repeat
from operator import mul
from typing import TYPE_CHECKING

import numpy as np

from strongroom import clock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    # Words of the filter, by their numbers, and the bits that are set in them.
    _Marks = tuple[NDArray[np.intp], NDArray[np.uint64]]

RECENT_LIMIT = 16384
# A dictionary answers small batches several times as fast as a run, and takes five times the
# memory: a table that is small has nothing else.
FIRST_LIMIT = 131_072
# Ids of a batch that are sought one by one: fewer than these take less time so than all at once.
_FEW = 12
# A run is merged with the one before it unless that is this many times longer.
_MERGE_FACTOR = 3
# The bits that the 12 bits of a number set in a word of the filter.
_NUMBERS = np.arange(4096, dtype=np.uint64)
_ONE = np.uint64(1)
_PATTERNS = _ONE << (_NUMBERS & np.uint64(63)) | _ONE << (_NUMBERS >> np.uint64(6))
# Entries compared at once, from the start of a directory slot (which has 2 to 4 on average).
_WINDOW = np.arange(8, dtype=np.uint32)
_WORD_MASK = (1 << 64) - 1


class _SortedRun:
    """Entries in the order of their keys."""

    __slots__ = ("_directory", "_rest", "_shift", "keys", "values")

    def __init__(self, columns: list[NDArray[np.uint64]], values: NDArray[np.int64]) -> None:
        """`columns`: keys, and the other words of the ids column by column; owned by the run.

        Equal ids stay in their order.
        """
        order = np.argsort(columns[0], kind="stable")
        values = values[order]
        # One column at a time: a second copy of millions of ids is too much memory.
        for number, column in enumerate(columns):
            columns[number] = column[order]
            del column
        del order
        self.keys, *self._rest = columns
        self.values = values
        bits = max(1, len(values).bit_length() - 2)
        self._shift = np.uint64(64 - bits)
        counts = np.bincount((self.keys >> self._shift).astype(np.intp), minlength=1 << bits)
        self._directory = np.zeros((1 << bits) + 1, np.uint32)
        np.cumsum(counts, out=self._directory[1:])

    def __len__(self) -> int:
        return len(self.values)

    def columns(self) -> list[NDArray[np.uint64]]:
        """What the run was made of, sorted; it must not be used afterwards."""
        columns = [self.keys, *self._rest]
        del self.keys, self._rest, self._directory
        return columns

    def find(
        self, words: NDArray[np.uint64], keys: NDArray[np.uint64], found: NDArray[np.int64]
    ) -> None:
        """Write the values of ids found here into `found`."""
        slots = (keys >> self._shift).view(np.intp)
        begins = self._directory.take(slots)
        ends = self._directory.take(slots + 1)
        # Past the end the last entry is compared again, which is harmless.
        equal = self.keys.take(begins[:, None] + _WINDOW, mode="clip") == keys[:, None]
        hit = equal.any(axis=1)
        rows = hit.nonzero()[0]
        if len(rows):
            at = begins[rows].astype(np.intp) + equal[rows].argmax(axis=1)
            self._take(words, keys, rows, at, found)
        rows = (~hit & (ends - begins > len(_WINDOW))).nonzero()[0]
        if len(rows):
            self._take(words, keys, rows, self.keys.searchsorted(keys[rows]), found)

    def find_one(self, key: int, rest: Sequence[int]) -> int:
        """The value of one id given as its key and other words, or -1."""
        slot = key >> int(self._shift)
        begin, end = self._directory[slot : slot + 2].tolist()
        for at, value in enumerate(self.keys[begin:end].tolist(), begin):
            if value == key and all(
                column[at] == word for column, word in zip(self._rest, rest, strict=True)
            ):
                return int(self.values[at])
        return -1

    def _take(
        self,
        words: NDArray[np.uint64],
        keys: NDArray[np.uint64],
        rows: NDArray[np.intp],
        at: NDArray[np.intp],
        found: NDArray[np.int64],
    ) -> None:
        np.minimum(at, len(self.values) - 1, out=at)
        while len(rows):
            same = self.keys[at] == keys[rows]
            rows, at = rows[same], at[same]
            same = np.ones(len(rows), np.bool_)
            for column, rest in enumerate(self._rest, 1):
                same &= rest[at] == words[rows, column]
            found[rows[same]] = self.values[at[same]]
            # Ids with the same key are adjacent.
            different = ~same & (at + 1 < len(self.values))
            rows, at = rows[different], at[different] + 1


class _Filter:
    """What was added, by keys: a Bloom filter that has all bits of one key in one word.

    16 to 32 bits a key, of which 4 are set: when it is full, about 1 of 200 keys that were not
    added seems to be there. F. Putze, P. Sanders, J. Singler: Cache-, Hash- and Space-Efficient
    Bloom Filters, 2007.
    """

    def __init__(self, parts: Sequence[NDArray[np.uint64]]) -> None:
        """parts: the keys that are there now; there is room for `capacity`."""
        bits = max(1, sum(map(len, parts)).bit_length() - 2)
        self.capacity = 4 << bits
        self._words = np.zeros(1 << bits, np.uint64)
        self._shift = np.uint64(64 - bits)
        for part in parts:
            self.add(self.marks_of(part))

    def marks_of(self, keys: NDArray[np.uint64]) -> _Marks:
        """What keys set in the filter."""
        numbers = keys.view(np.int64)
        pattern: NDArray[np.uint64] = _PATTERNS.take(numbers & 4095)
        pattern |= _PATTERNS.take(numbers >> 12 & 4095)
        return (keys >> self._shift).view(np.intp), pattern

    def add(self, marks: _Marks) -> None:
        places, pattern = marks
        np.bitwise_or.at(self._words, places, pattern)

    def may_have(self, marks: _Marks) -> NDArray[np.intp]:
        """The numbers of those that may have been added; the others were not."""
        places, pattern = marks
        possible: NDArray[np.bool_] = (self._words.take(places) & pattern) == pattern
        return possible.nonzero()[0]


class IdTable:
    """Numbers (0 or more) by id; for one thread at a time."""

    def __init__(self, id_size: int) -> None:
        """`id_size`: bytes of an id, a multiple of 8 and more than 8."""
        self._id_size = id_size
        self._item = np.dtype((np.void, id_size))
        self._unpack = struct.Struct(f"={id_size // 8}Q").unpack
        self._factors = [factor | 1 for factor in self._unpack(clock.random_bytes(id_size))]
        self._column_factors = np.array(self._factors, np.uint64)
        self._runs: list[_SortedRun] = []
        self._recent: dict[bytes, int] = {}
        # Of all entries, once there are runs.
        self._filter: _Filter | None = None

    def __len__(self) -> int:
        return len(self._recent) + sum(map(len, self._runs))

    def add(self, ids: bytes, values: Sequence[int]) -> None:
        """Add a few: n ids joined and n values."""
        if self._filter is not None:
            self._filter.add(self._filter.marks_of(self._keys(self._words(ids))))
        self._add_items(np.frombuffer(ids, self._item).tolist(), values)

    def add_if_new(self, ids: bytes, values: Sequence[int]) -> bool:
        """`add`, if it is quickly said that none of the ids is in the table; whether it was."""
        items = np.frombuffer(ids, self._item).tolist()
        if self._filter is None:
            if not self._recent.keys().isdisjoint(items):
                return False
        else:
            marks = self._filter.marks_of(self._keys(self._words(ids)))
            possible = self._filter.may_have(marks).tolist()
            if len(possible) >= _FEW or any(self.find_one(items[row]) >= 0 for row in possible):
                return False
            self._filter.add(marks)
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
        keys = columns[0]
        keys *= self._column_factors[0]
        for column, factor in zip(columns[1:], self._column_factors[1:], strict=True):
            keys += column * factor
        if self._filter is not None:
            self._filter.add(self._filter.marks_of(keys))
        self._add_run(columns, values)

    def find(self, ids: bytes) -> NDArray[np.int64]:
        """The value of each id, -1 where it isn't in the table."""
        if self._filter is not None:
            return self.find_words(self._words(ids))
        items = np.frombuffer(ids, self._item).tolist()
        return np.fromiter(map(self._recent.get, items, repeat(-1)), np.int64, len(items))

    def find_words(self, words: NDArray[np.uint64]) -> NDArray[np.int64]:
        """`find` of ids as rows of their 8-byte words."""
        if self._filter is None:
            return self.find(words.tobytes())
        found = np.empty(len(words), np.int64)
        found.fill(-1)
        keys = self._keys(words)
        possible = self._filter.may_have(self._filter.marks_of(keys))
        if not len(possible):
            return found
        if len(possible) < len(words):
            words, keys = words[possible], keys[possible]
        items = np.frombuffer(words, self._item).tolist()
        if len(possible) < _FEW:
            found[possible] = [self.find_one(item) for item in items]
            return found
        values = np.empty(len(words), np.int64)
        values.fill(-1)
        for run in self._runs:
            run.find(words, keys, values)
        # What was added last counts.
        recent = self._recent
        if not recent.keys().isdisjoint(items):
            for row, item in enumerate(items):
                values[row] = recent.get(item, values[row])
        found[possible] = values
        return found

    def find_one(self, an_id: bytes) -> int:
        """The value of one id, or -1."""
        value = self._recent.get(an_id, -1)
        if value < 0 and self._runs:
            words = self._unpack(an_id)
            key = sum(map(mul, words, self._factors)) & _WORD_MASK
            for run in reversed(self._runs):
                value = run.find_one(key, words[1:])
                if value >= 0:
                    break
        return value

    def _add_items(self, items: list[bytes], values: Sequence[int]) -> None:
        recent = self._recent
        recent.update(zip(items, values, strict=True))
        if len(recent) >= (RECENT_LIMIT if self._runs else FIRST_LIMIT):
            words = self._words(b"".join(recent))
            columns = [self._keys(words), *(column.copy() for column in words.T[1:])]
            added = np.fromiter(recent.values(), np.int64, len(recent))
            recent.clear()
            self._add_run(columns, added)

    def _add_run(self, columns: list[NDArray[np.uint64]], values: NDArray[np.int64]) -> None:
        while self._runs and len(self._runs[-1]) < _MERGE_FACTOR * len(values):
            older = self._runs.pop()
            values = np.concatenate((older.values, values))
            for number, column in enumerate(older.columns()):
                columns[number] = np.concatenate((column, columns[number]))
        self._runs.append(_SortedRun(columns, values))
        if self._filter is None or len(self) > self._filter.capacity:
            recent = self._keys(self._words(b"".join(self._recent)))
            self._filter = _Filter([*(run.keys for run in self._runs), recent])

    def _keys(self, words: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """The keys of ids given as rows of their words; numbers wrap."""
        keys: NDArray[np.uint64] = words[:, 0] * self._column_factors[0]
        for number in range(1, words.shape[1]):
            keys += words[:, number] * self._column_factors[number]
        return keys

    def _words(self, ids: bytes) -> NDArray[np.uint64]:
        return np.frombuffer(ids, np.uint64).reshape(-1, self._id_size // 8)
