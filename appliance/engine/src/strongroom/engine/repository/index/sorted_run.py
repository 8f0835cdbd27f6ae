"""Parts of a table from ids to numbers (`id_table`): a sorted run, and a filter of its keys."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

# What a table of ids has, in a few bits of each: most of what it has not is known at once.
Marks = tuple[NDArray[np.intp], NDArray[np.uint64]]

# The fewest bits of a key by which the filter is divided.
_FILTER_BITS = 12
# The bits that the 12 bits of a number set in a word of the filter.
_NUMBERS = np.arange(4096, dtype=np.uint64)
_ONE = np.uint64(1)
_PATTERNS = _ONE << (_NUMBERS & np.uint64(63)) | _ONE << (_NUMBERS >> np.uint64(6))
# Keys that are added at once: there may be millions.
_PIECE = 16384


class KeyFilter:
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

    @classmethod
    def of(cls, words: NDArray[np.uint64]) -> KeyFilter:
        """A filter that was made before, of 2^n words."""
        found = cls(())
        found._words = words
        found._shift = np.uint64(65 - len(words).bit_length())
        found.capacity = 4 * len(words)
        return found

    def marks_of(self, keys: NDArray[np.uint64]) -> Marks:
        """What keys set in the filter."""
        numbers = keys.view(np.int64)
        pattern: NDArray[np.uint64] = _PATTERNS.take(numbers & 4095)
        pattern |= _PATTERNS.take(numbers >> 12 & 4095)
        return (keys >> self._shift).view(np.intp), pattern

    def add(self, marks: Marks) -> None:
        """Add keys, given as what they set."""
        places, pattern = marks
        np.bitwise_or.at(self._words, places, pattern)

    def add_many(self, keys: NDArray[np.uint64]) -> None:
        """`add`, in little memory."""
        for start in range(0, len(keys), _PIECE):
            self.add(self.marks_of(keys[start : start + _PIECE]))

    def may_have(self, marks: Marks) -> NDArray[np.intp]:
        """The numbers of those that may have been added; the others were not."""
        places, pattern = marks
        possible: NDArray[np.bool_] = (self._words.take(places) & pattern) == pattern
        return possible.nonzero()[0]


# Entries compared at once, from the start of a directory slot (which has 2 to 4 on average).
_WINDOW = np.arange(8, dtype=np.uint32)


class SortedRun:
    """Entries in the order of their keys."""

    __slots__ = ("_directory", "_rest", "_shift", "keys", "values")

    def __init__(self, columns: list[NDArray[np.uint64]], values: NDArray[np.int64]) -> None:
        """`columns`: keys, and the other words of the ids column by column; owned by the run.

        Equal ids stay in their order.
        """
        values = sort_entries(columns, values)
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


def sort_entries(columns: list[NDArray[np.uint64]], values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sort `columns`, in place, by the first of them, the keys; the values in that order.

    Equal ids stay in their order.
    """
    order = _order(columns[0])
    # One column at a time: a second copy of millions of ids is too much memory.
    for number, column in enumerate(columns):
        columns[number] = column[order]
        del column
    return values[order]


def _order(keys: NDArray[np.uint64]) -> NDArray[np.intp]:
    """The stable order of `keys`."""
    # A stable sort merges runs, which descend where one ends. It takes five times as long for
    # random keys as the other, which may swap equal ones: there are hardly any.
    if np.count_nonzero(keys[1:] < keys[:-1]) * 8 > len(keys):
        order = np.argsort(keys)
        ordered = keys[order]
        if not (ordered[1:] == ordered[:-1]).any():
            return order
        del order, ordered
    return np.argsort(keys, kind="stable")
