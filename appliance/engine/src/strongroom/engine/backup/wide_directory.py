"""Cuts a wide directory into slices, which are scanned as if they were directories of their own.

Cuts depend on names only, so every backup of the same names cuts alike and a slice finds its
counterpart in the parent; adding or removing a name changes its slice and at most the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Self
from zlib import crc32

import msgspec
import zstandard

# A directory of more rows is wide.
WIDE_DIRECTORY_ROWS: Final = 16384
# A slice ends before the first name whose checksum matches, between these bounds.
SLICE_LEAST_ROWS: Final = 4096
SLICE_MOST_ROWS: Final = 16384
_SLICE_MASK: Final = 4095
_LEVEL: Final = 1


class NameSlice(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Names of a slice in order: the first, the last, and all of them, packed.

    The coordinator holds those of all slices that no one has scanned yet. Names of a directory are
    alike: packed they take a tenth.
    """

    first: bytes
    last: bytes
    packed: bytes

    @classmethod
    def of(cls, joined: bytes) -> Self:
        """Names joined by NUL, at least one."""
        first, _, rest = joined.partition(b"\0")
        last = rest.rpartition(b"\0")[2] or first
        return cls(first, last, zstandard.compress(joined, _LEVEL))

    def joined(self) -> bytes:
        """All of them, joined by NUL."""
        return zstandard.decompress(self.packed)


def name_slices(batches: Iterable[list[bytes]], first: list[bytes]) -> Iterator[bytes]:
    """Slices of the sorted names in `first` and `batches`, each as its names joined by NUL."""
    pending = first
    for names in batches:
        pending = pending + names
        start = 0
        while len(pending) - start > SLICE_MOST_ROWS:
            end = start + SLICE_MOST_ROWS
            for row in range(start + SLICE_LEAST_ROWS, end):
                if crc32(pending[row]) & _SLICE_MASK == 0:
                    end = row
                    break
            yield b"\0".join(pending[start:end])
            start = end
        del pending[:start]
    yield b"\0".join(pending)
