"""What a table of ids has, in a few bits of each: most of what it has not is known at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    # Words of the filter, by their numbers, and the bits that are set in them.
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
