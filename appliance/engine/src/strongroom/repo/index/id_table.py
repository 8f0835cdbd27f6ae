"""A table from ids (16, 24 or 32 bytes of digest) to numbers, compact and searched in batches.

A small table is a dictionary. A larger one has sorted runs of numpy columns, merged geometrically,
each with a directory by the leading bits of its keys, and what was added last, unsorted. An entry
takes the id, 8 bytes, one or two for the directory, and two to four for a filter; a batch takes a
few steps over whole arrays for each run, of which there are few. Most of what a first backup asks
for is in none of them: the filter says so.

The *key* of an id stands for its first word: a sum of its words, each multiplied by a random odd
number of the table, mixed, and multiplied by another. Nobody can store ids whose keys are alike, to
make every search slow; and the first word follows from key and other words, so those are what is
kept and compared.
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

# Entries of the shortest runs.
RECENT_LIMIT = 16384
# A dictionary answers small batches several times as fast as a run, and takes five times the
# memory: a table that is small has nothing else.
FIRST_LIMIT = 131_072
# Ids of a batch that are sought one by one: fewer than these take less time so than all at once.
_FEW = 12
# A run is merged with the one before it unless that is this many times longer.
_MERGE_FACTOR = 3
# The fewest bits of a key by which the filter is divided.
_FILTER_BITS = 12
# The bits that the 12 bits of a number set in a word of the filter.
_NUMBERS = np.arange(4096, dtype=np.uint64)
_ONE = np.uint64(1)
_PATTERNS = _ONE << (_NUMBERS & np.uint64(63)) | _ONE << (_NUMBERS >> np.uint64(6))
# Entries compared at once, from the start of a directory slot (which has 2 to 4 on average).
_WINDOW = np.arange(8, dtype=np.uint32)
_WORD_MASK = (1 << 64) - 1
_HALF = np.uint64(32)


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
        bits = max(_FILTER_BITS, sum(map(len, parts)).bit_length() - 2)
        self.capacity = 4 << bits
        self._words = np.zeros(1 << bits, np.uint64)
        self._shift = np.uint64(64 - bits)
        for part in parts:
            self.add_many(part)

    def marks_of(self, keys: NDArray[np.uint64]) -> _Marks:
        """What keys set in the filter."""
        numbers = keys.view(np.int64)
        pattern: NDArray[np.uint64] = _PATTERNS.take(numbers & 4095)
        pattern |= _PATTERNS.take(numbers >> 12 & 4095)
        return (keys >> self._shift).view(np.intp), pattern

    def add(self, marks: _Marks) -> None:
        places, pattern = marks
        np.bitwise_or.at(self._words, places, pattern)

    def add_many(self, keys: NDArray[np.uint64]) -> None:
        """`add`, in little memory."""
        for start in range(0, len(keys), RECENT_LIMIT):
            self.add(self.marks_of(keys[start : start + RECENT_LIMIT]))

    def may_have(self, marks: _Marks) -> NDArray[np.intp]:
        """The numbers of those that may have been added; the others were not."""
        places, pattern = marks
        possible: NDArray[np.bool_] = (self._words.take(places) & pattern) == pattern
        return possible.nonzero()[0]


class _Recent:
    """What was added last, and is not in a run yet; of equal ids the last counts."""

    def __init__(self, word_count: int) -> None:
        self.limit = RECENT_LIMIT
        self.count = 0
        self._keys = np.empty(self.limit, np.uint64)
        self._words = np.empty((self.limit, word_count), np.uint64)
        self._values = np.empty(self.limit, np.int64)
        # Made when many are sought at once: what is new throughout needs none.
        self._by_id: dict[bytes, int] | None = None

    @property
    def keys(self) -> NDArray[np.uint64]:
        return self._keys[: self.count]

    def add(
        self, keys: NDArray[np.uint64], words: NDArray[np.uint64], values: NDArray[np.int64]
    ) -> None:
        """Add some, for which there is room."""
        added = slice(self.count, self.count + len(keys))
        self._keys[added], self._words[added], self._values[added] = keys, words, values
        self.count += len(keys)
        if self._by_id is not None:
            self._by_id.update(zip(_items(words), values.tolist(), strict=True))

    def find_one(self, key: int, an_id: bytes) -> int:
        for row in reversed((self.keys == np.uint64(key)).nonzero()[0].tolist()):
            if self._words[row].tobytes() == an_id:
                return int(self._values[row])
        return -1

    def find(self, words: NDArray[np.uint64], found: NDArray[np.int64]) -> None:
        """Write the values of ids found here into `found`."""
        if self._by_id is None:
            items = _items(self._words[: self.count])
            self._by_id = dict(zip(items, self._values[: self.count].tolist(), strict=True))
        by_id, items = self._by_id, _items(words)
        if not by_id.keys().isdisjoint(items):
            for row, item in enumerate(items):
                found[row] = by_id.get(item, found[row])

    def take(self) -> tuple[list[NDArray[np.uint64]], NDArray[np.int64]]:
        """The columns of a run, and its values; nothing is left here."""
        words, count = self._words, self.count
        # Of equal ids a run finds the first.
        columns = [self.keys[::-1].copy(), *(column[:count][::-1].copy() for column in words.T[1:])]
        self.count, self._by_id = 0, None
        return columns, self._values[:count][::-1].copy()


class IdTable:
    """Numbers (0 or more) by id; for one thread at a time."""

    def __init__(self, id_size: int) -> None:
        """`id_size`: bytes of an id, a multiple of 8 and more than 8."""
        self._word_count = id_size // 8
        self._item = np.dtype((np.void, id_size))
        self._unpack = struct.Struct(f"={self._word_count}Q").unpack
        self._factors, self._mixed_factors = (
            [factor | 1 for factor in self._unpack(clock.random_bytes(id_size))] for _ in range(2)
        )
        self._column_factors = np.array(self._factors, np.uint64)
        self._mixed_column_factors = np.array(self._mixed_factors, np.uint64)
        # All there is, until there are runs.
        self._first: dict[bytes, int] = {}
        self._runs: list[_SortedRun] = []
        self._recent: _Recent | None = None
        self._filter: _Filter | None = None

    def __len__(self) -> int:
        recent = 0 if self._recent is None else self._recent.count
        return len(self._first) + recent + sum(map(len, self._runs))

    def add(self, ids: bytes, values: Sequence[int]) -> None:
        """Add a few: n ids joined and n values. Of equal ids the one added last is found."""
        if self._filter is None:
            self._add_first(np.frombuffer(ids, self._item).tolist(), values)
        else:
            words = self._words(ids)
            keys = self._keys(words)
            self._add_recent(words, keys, self._filter.marks_of(keys), values)

    def add_if_new(self, ids: bytes, values: Sequence[int]) -> bool:
        """`add`, if it is quickly said that none of the ids is in the table; whether it was."""
        if self._filter is None:
            items = np.frombuffer(ids, self._item).tolist()
            if not self._first.keys().isdisjoint(items):
                return False
            self._add_first(items, values)
            return True
        words = self._words(ids)
        keys = self._keys(words)
        marks = self._filter.marks_of(keys)
        possible = self._filter.may_have(marks).tolist()
        if len(possible) >= _FEW:
            return False
        if any(self.find_one(words[row].tobytes()) >= 0 for row in possible):
            return False
        self._add_recent(words, keys, marks, values)
        return True

    def add_many(self, ids: bytes, values: NDArray[np.int64]) -> None:
        """Add many at once: n ids joined and n values; of equal ids the first is found."""
        words = self._words(ids)
        self.add_columns([column.copy() for column in words.T], values)

    def add_columns(self, columns: list[NDArray[np.uint64]], values: NDArray[np.int64]) -> None:
        """`add_many` of ids given as columns of their 8-byte words, which the table then owns."""
        if not len(values):
            return
        self._end_first()
        self._end_recent()
        keys = columns[0]
        # A piece at a time: there may be millions.
        for start in range(0, len(keys), RECENT_LIMIT):
            piece = slice(start, start + RECENT_LIMIT)
            words = np.stack([column[piece] for column in columns], axis=1)
            keys[piece] = self._keys(words)
        if self._filter is not None:
            self._filter.add_many(keys)
        del keys
        self._add_run(columns, values)

    def find(self, ids: bytes) -> NDArray[np.int64]:
        """The value of each id, -1 where it isn't in the table."""
        if self._filter is not None:
            return self.find_words(self._words(ids))
        items = np.frombuffer(ids, self._item).tolist()
        return np.fromiter(map(self._first.get, items, repeat(-1)), np.int64, len(items))

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
        words, keys = words[possible], keys[possible]
        if len(possible) < _FEW:
            found[possible] = [self.find_one(one.tobytes()) for one in words]
            return found
        values = found[possible]
        for run in self._runs:
            run.find(words, keys, values)
        if self._recent is not None and self._recent.count:
            self._recent.find(words, values)
        found[possible] = values
        return found

    def find_one(self, an_id: bytes) -> int:
        """The value of one id, or -1."""
        if self._filter is None:
            return self._first.get(an_id, -1)
        words = self._unpack(an_id)
        mixed = [product & _WORD_MASK for product in map(mul, words, self._factors)]
        mixed = [product ^ product >> 32 for product in mixed]
        key = sum(map(mul, mixed, self._mixed_factors)) & _WORD_MASK
        value = -1 if self._recent is None else self._recent.find_one(key, an_id)
        for run in reversed(self._runs):
            if value >= 0:
                break
            value = run.find_one(key, words[1:])
        return value

    def _add_first(self, items: list[bytes], values: Sequence[int]) -> None:
        self._first.update(zip(items, values, strict=True))
        if len(self._first) >= FIRST_LIMIT:
            self._end_first()

    def _end_first(self) -> None:
        """Make a run of the dictionary."""
        if not self._first:
            return
        words = self._words(b"".join(self._first))
        values = np.fromiter(self._first.values(), np.int64, len(words))
        self._first.clear()
        self._add_run([self._keys(words), *(column.copy() for column in words.T[1:])], values)

    def _add_recent(
        self,
        words: NDArray[np.uint64],
        keys: NDArray[np.uint64],
        marks: _Marks,
        values: Sequence[int],
    ) -> None:
        assert self._filter is not None
        if len(values) != len(words):
            raise ValueError(f"{len(values)} values for {len(words)} ids")
        self._filter.add(marks)
        if isinstance(values, range):
            added = np.arange(values.start, values.stop, values.step)
        else:
            added = np.array(values, np.int64)
        if self._recent is None:
            self._recent = _Recent(self._word_count)
        if self._recent.count + len(added) > self._recent.limit:
            self._end_recent()
        if len(added) > self._recent.limit:
            # Of equal ids a run finds the first.
            columns = [keys, *words.T[1:]]
            self._add_run([column[::-1].copy() for column in columns], added[::-1].copy())
        else:
            self._recent.add(keys, words, added)
        self._keep_filter()

    def _end_recent(self) -> None:
        """Make a run of what was added last."""
        if self._recent is not None and self._recent.count:
            self._add_run(*self._recent.take())

    def _add_run(self, columns: list[NDArray[np.uint64]], values: NDArray[np.int64]) -> None:
        """Add a run of `columns`, the first of which are keys."""
        while self._runs and len(self._runs[-1]) < _MERGE_FACTOR * len(values):
            older = self._runs.pop()
            values = np.concatenate((values, older.values))
            for number, column in enumerate(older.columns()):
                columns[number] = np.concatenate((columns[number], column))
        self._runs.append(_SortedRun(columns, values))
        self._keep_filter()

    def _keep_filter(self) -> None:
        """Make a filter if there is none, or it is full."""
        if self._filter is None or len(self) > self._filter.capacity:
            recent = [] if self._recent is None else [self._recent.keys]
            self._filter = _Filter([*(run.keys for run in self._runs), *recent])

    def _keys(self, words: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """The keys of ids given as rows of their words; numbers wrap."""
        mixed = words * self._column_factors
        # A product carries differences of the upper bits no further down.
        mixed ^= mixed >> _HALF
        keys: NDArray[np.uint64] = mixed @ self._mixed_column_factors
        return keys

    def _words(self, ids: bytes) -> NDArray[np.uint64]:
        return np.frombuffer(ids, np.uint64).reshape(-1, self._word_count)


def _items(words: NDArray[np.uint64]) -> list[bytes]:
    """The ids that are given as rows of their words."""
    items: list[bytes] = np.frombuffer(words, np.dtype((np.void, 8 * words.shape[1]))).tolist()
    return items
