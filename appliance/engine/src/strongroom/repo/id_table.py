"""A table from ids (24 or 16 bytes of digest) to numbers, compact and searched in batches.

Sorted runs of numpy columns, newest last, merged geometrically, and a dictionary of the latest
additions: 8 bytes over the id for each entry, and a few searches for each batch. Where an id was
added twice, the entry added first within a run is found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_RECENT_LIMIT = 8192
# A run is merged with the one before it unless that is this many times longer.
_MERGE_FACTOR = 6


class _Run:
    """Entries in the order of the first eight bytes of their ids."""

    __slots__ = ("first", "rest", "values")

    def __init__(self, words: NDArray[np.uint64], values: NDArray[np.int64]) -> None:
        """`words`: one row of 8-byte words for each id."""
        order = np.argsort(words[:, 0], kind="stable")
        self.first = words[order, 0]
        self.rest = [words[order, column] for column in range(1, words.shape[1])]
        self.values = values[order]

    def __len__(self) -> int:
        return len(self.values)

    def words(self) -> NDArray[np.uint64]:
        return np.stack([self.first, *self.rest], axis=1)

    def find(self, words: NDArray[np.uint64], found: NDArray[np.int64]) -> None:
        """Fill `found` where it is below 0 and the id is here."""
        rows = np.flatnonzero(found < 0)
        wanted = words[rows]
        at = np.searchsorted(self.first, wanted[:, 0])
        while len(rows):
            inside = at < len(self.first)
            inside[inside] = self.first[at[inside]] == wanted[inside, 0]
            rows, wanted, at = rows[inside], wanted[inside], at[inside]
            same = np.ones(len(rows), np.bool_)
            for column, rest in enumerate(self.rest, 1):
                same &= rest[at] == wanted[:, column]
            found[rows[same]] = self.values[at[same]]
            # Equal first words of different ids: look one further.
            rows, wanted, at = rows[~same], wanted[~same], at[~same] + 1


class IdTable:
    """Numbers (0 or more) by id; for one thread at a time."""

    def __init__(self, id_size: int) -> None:
        """`id_size`: bytes of an id, a multiple of 8 and more than 8."""
        self._id_size = id_size
        self._runs: list[_Run] = []
        self._recent: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._recent) + sum(map(len, self._runs))

    def add(self, ids: bytes, values: Sequence[int]) -> None:
        """Add a few: n ids joined and n values."""
        size = self._id_size
        recent = self._recent
        for row, value in enumerate(values):
            recent.setdefault(ids[row * size : row * size + size], value)
        if len(recent) >= _RECENT_LIMIT:
            self.add_many(b"".join(recent), np.fromiter(recent.values(), np.int64, len(recent)))
            recent.clear()

    def add_many(self, ids: bytes, values: NDArray[np.int64]) -> None:
        """Add many at once: n ids joined and n values."""
        if not len(values):
            return
        words = self._words(ids)
        while self._runs and len(self._runs[-1]) < _MERGE_FACTOR * len(values):
            older = self._runs.pop()
            words = np.concatenate((older.words(), words))
            values = np.concatenate((older.values, values))
        self._runs.append(_Run(words, values))

    def find(self, ids: bytes) -> NDArray[np.int64]:
        """The value of each id, -1 where it isn't in the table."""
        size = self._id_size
        count = len(ids) // size
        recent = self._recent
        if recent:
            look_up = recent.get
            found = np.fromiter(
                (look_up(ids[at : at + size], -1) for at in range(0, len(ids), size)),
                np.int64,
                count,
            )
        else:
            found = np.full(count, -1, np.int64)
        words = self._words(ids)
        for run in self._runs:
            run.find(words, found)
        return found

    def find_one(self, an_id: bytes) -> int:
        """The value of one id, or -1."""
        return int(self.find(an_id)[0])

    def _words(self, ids: bytes) -> NDArray[np.uint64]:
        # Big endian would sort as bytes do, but any order will do: words are only compared here.
        return np.frombuffer(ids, np.uint64).reshape(-1, self._id_size // 8)
