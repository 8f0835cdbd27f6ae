"""The content of one regular file of a snapshot, with random access.

A file's content is its chunks joined; of a sparse file they hold only the data extents. Reading
is safe from any thread.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate
from threading import Lock
from typing import Final, Protocol

from strongroom.base.errors import DamageError
from strongroom.base.printable import printable
from strongroom.engine.rows.views import RowView


class PartReader(Protocol):
    """Gives the chunks of files; a BlockReader does."""

    def chunk(self, wanted: bytes, slot: int, /) -> memoryview:
        """The raw bytes of a chunk. Raises DamageError."""

    def chunk_length(self, wanted: bytes, slot: int, /) -> int:
        """The length of a chunk in bytes. Raises DamageError."""

    def prefetch(self, wanted: Iterable[bytes], /) -> None:
        """Load blocks into the cache, possibly in the background."""


_READ_AHEAD_PARTS: Final = 2
_COMPARED_BYTES: Final = 1 << 20


class FileContent:
    """One file's bytes. `extents`: (offset, length) of its data, the whole file unless sparse."""

    def __init__(self, row: RowView, reader: PartReader) -> None:
        """Raises DamageError when the file's chunks do not make up its size."""
        self._parts = row.parts
        self._reader = reader
        self.size = row.size
        self.extents = row.extents if row.extents is not None else [(0, row.size)]
        lengths = [length for _, length in self.extents]
        self._extent_offsets = [offset for offset, _ in self.extents]
        self._extent_places = [0, *accumulate(lengths)]
        stored = self.stored_bytes = self._extent_places[-1]
        if len(row.parts) == 1:
            self._part_places = [0, stored]
        else:
            self._part_places = [0, *accumulate(reader.chunk_length(*part) for part in row.parts)]
        if self._part_places[-1] != stored:
            raise DamageError(
                f"the chunks of {printable(row.path)} hold "
                f"{self._part_places[-1]} bytes instead of {stored}; run check"
            )
        self._lock = Lock()
        self._next_place = 0
        self._prefetched = 0

    def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes from `offset`, fewer only at the end. Raises DamageError."""
        end = min(offset + size, self.size)
        pieces: list[bytes | memoryview] = []
        while offset < end:
            number = bisect_right(self._extent_offsets, offset) - 1
            within = offset - self._extent_offsets[number] if number >= 0 else 0
            if number >= 0 and within < self.extents[number][1]:
                count = min(end - offset, self.extents[number][1] - within)
                pieces += self._stored(self._extent_places[number] + within, count)
            else:
                following = number + 1
                hole_end = self._extent_offsets[following] if following < len(self.extents) else end
                count = min(end, hole_end) - offset
                pieces.append(bytes(count))
            offset += count
        return b"".join(pieces)

    def seek_data(self, offset: int) -> int | None:
        """The first offset from `offset` on that holds data; None when only a hole follows."""
        for start, length in self.extents:
            if offset < start + length:
                return max(offset, start)
        return None

    def seek_hole(self, offset: int) -> int:
        """The first offset from `offset` on that is in a hole; the end of the file is one."""
        for start, length in self.extents:
            if start <= offset < start + length:
                offset = start + length
        return min(offset, self.size)

    def part_at(self, place: int) -> tuple[tuple[bytes, int], int]:
        """The chunk that holds an offset of the joined chunks, and where it ends."""
        part = bisect_right(self._part_places, place) - 1
        return self._parts[part], self._part_places[part + 1]

    def stored(self, place: int, count: int) -> bytes:
        """`count` bytes of the joined chunks. Raises DamageError."""
        return b"".join(self._stored(place, count))

    def _stored(self, place: int, count: int) -> list[memoryview]:
        end = place + count
        part = bisect_right(self._part_places, place) - 1
        self._read_ahead(place, end, part)
        pieces = []
        while place < end:
            first, last = self._part_places[part : part + 2]
            if last > place:
                chunk = self._reader.chunk(*self._parts[part])
                if len(chunk) != last - first:
                    raise DamageError("a chunk of this file has another length; run check")
                pieces.append(chunk[place - first : min(end, last) - first])
                place = min(end, last)
            part += 1
        return pieces

    def _read_ahead(self, place: int, end: int, part: int) -> None:
        """Load the following chunks into the cache when reads are sequential."""
        with self._lock:
            straight_on = place == self._next_place
            self._next_place = end
            first = max(part + 1, self._prefetched)
            last = min(part + 1 + _READ_AHEAD_PARTS, len(self._parts))
            if not straight_on or first >= last:
                return
            self._prefetched = last
        self._reader.prefetch([block_id for block_id, _ in self._parts[first:last]])


def same_content(one: FileContent, other: FileContent) -> bool:
    """Whether two files read the same. Chunks they share are not read. Raises DamageError."""
    if one.size != other.size:
        return False
    if one.extents != other.extents:
        return all(
            one.read(offset, _COMPARED_BYTES) == other.read(offset, _COMPARED_BYTES)
            for offset in range(0, one.size, _COMPARED_BYTES)
        )
    place = 0
    while place < one.stored_bytes:
        ours, our_end = one.part_at(place)
        theirs, their_end = other.part_at(place)
        end = min(our_end, their_end)
        if (ours, our_end) != (theirs, their_end) and (
            one.stored(place, end - place) != other.stored(place, end - place)
        ):
            return False
        place = end
    return True
