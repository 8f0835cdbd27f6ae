"""A table from ids (16, 24 or 32 bytes of digest) to numbers, compact and searched in batches.

A small table is a dictionary. A larger one has sorted runs of numpy columns, merged geometrically,
each with a directory by the leading bits of its keys, and what was added last, unsorted. An entry
takes the id, 8 bytes, one or two for the directory, and two to four for a filter; a batch takes a
few steps over whole arrays for each run, of which there are few. Most of what a first backup asks
for is in none of them: the filter says so.

The *key* of an id means its first word: a sum of its words, each multiplied by a random odd
number of the table, mixed, and multiplied by another. No one can store ids whose keys are alike, to
make every search slow; and the first word follows from key and other words, so those are what is
kept and compared.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import repeat
from operator import mul

import numpy as np
from numpy.typing import NDArray

from strongroom.base import clock
from strongroom.engine.content.digests import BLOCK_ID_SIZE, BLOCK_ID_WORDS
from strongroom.engine.repository.index.sorted_run import KeyFilter, Marks, SortedRun, sort_entries

# A table from block ids to rows of an index, a block id counting for one owner only.

_WORD_SIZE = 8


class OwnedIds:
    """Numbers by block id and number of an owner; for one thread at a time."""

    def __init__(self) -> None:
        self._table = IdTable(BLOCK_ID_SIZE + _WORD_SIZE)

    def add(self, block_ids: bytes, owners: NDArray[np.int64], values: NDArray[np.int64]) -> None:
        """Add n * 24 bytes of ids, n owners and n values; of equal ones the first counts."""
        words = _keys(block_ids, owners)
        if len(words):
            self._table.add_columns([words[:, at].copy() for at in range(words.shape[1])], values)

    def add_recent(self, block_ids: bytes, owner: int, values: Sequence[int]) -> None:
        """Add a few of one owner, which count before those added earlier."""
        self._table.add(_keys(block_ids, owner).tobytes(), values)

    def find(self, block_ids: bytes, owner: int) -> NDArray[np.int64]:
        """The value of each of n * 24 bytes of ids for an owner, -1 where there is none."""
        return self._table.find_words(_keys(block_ids, owner))

    def find_of(self, block_ids: bytes, owners: NDArray[np.int64]) -> NDArray[np.int64]:
        """`find` for an owner of each id."""
        return self._table.find_words(_keys(block_ids, owners))

    def find_one(self, block_id: bytes, owner: int) -> int:
        """The value of one id, or -1."""
        return self._table.find_one(block_id + owner.to_bytes(_WORD_SIZE, "little"))


def _keys(block_ids: bytes, owners: NDArray[np.int64] | int) -> NDArray[np.uint64]:
    """Ids and owners (one for each id, or one for all) as rows of words."""
    keys = np.empty((len(block_ids) // BLOCK_ID_SIZE, BLOCK_ID_WORDS + 1), np.uint64)
    keys[:, :-1] = np.frombuffer(block_ids, np.uint64).reshape(-1, BLOCK_ID_WORDS)
    keys[:, -1] = owners
    return keys


# Entries of the shortest runs.
RECENT_LIMIT = 16384
# A dictionary answers small batches several times as fast as a run, and takes five times the
# memory: a table that is small has nothing else.
FIRST_LIMIT = 131_072
# Ids of a batch that are sought one by one: fewer than these take less time so than all at once.
_FEW = 12
# A run is merged with the one before it unless that is this many times longer.
_MERGE_FACTOR = 2
_WORD_MASK = (1 << 64) - 1
_HALF = np.uint64(32)


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
        self._runs: list[SortedRun] = []
        self._recent: _Recent | None = None
        self._filter: KeyFilter | None = None

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
        """`add`, if it is quickly known that none of the ids is in the table; whether it was."""
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
        marks: Marks,
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
        if self._merges_with(len(values)):
            values = sort_entries(columns, values)
        while self._merges_with(len(values)):
            older = self._runs.pop()
            values = np.concatenate((values, older.values))
            for number, column in enumerate(older.columns()):
                columns[number] = np.concatenate((columns[number], column))
        self._runs.append(SortedRun(columns, values))
        self._keep_filter()

    def _merges_with(self, count: int) -> bool:
        """Whether a run of so many entries is merged with the last one."""
        return bool(self._runs) and len(self._runs[-1]) < _MERGE_FACTOR * count

    def _keep_filter(self) -> None:
        """Make a filter if there is none, or it is full."""
        if self._filter is None or len(self) > self._filter.capacity:
            recent = [] if self._recent is None else [self._recent.keys]
            self._filter = KeyFilter([*(run.keys for run in self._runs), *recent])

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
