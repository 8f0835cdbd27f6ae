"""The content of one regular file of a snapshot, to be read at any place.

A file's content is its chunks joined; of a sparse file they hold only the data extents. Reading
is safe from any thread.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from threading import Lock
from typing import TYPE_CHECKING, Final, Protocol

from strongroom.errors import DamageError

if TYPE_CHECKING:
    from strongroom.scan.row_view import RowView


class PartReader(Protocol):
    """Gives the chunks of files."""

    def chunk(self, block_id: bytes, slot: int) -> memoryview:
        """The raw bytes of a chunk. Raises DamageError."""

    def part_length(self, block_id: bytes, slot: int) -> int:
        """The length of a chunk in bytes. Raises DamageError."""

    def prefetch(self, block_id: bytes) -> None:
        """Begin to bring a block into the cache; returns at once."""


_READ_AHEAD_PARTS: Final = 2


class FileContent:
    """One file's bytes."""

    def __init__(self, row: RowView, reader: PartReader) -> None:
        """Raises DamageError when the file's chunks do not make up its size."""
        self._parts = row.parts
        self._reader = reader
        self.size = row.size
        self._extents = row.extents if row.extents is not None else [(0, row.size)]
        lengths = [length for _, length in self._extents]
        self._extent_offsets = [offset for offset, _ in self._extents]
        self._extent_places = [0, *accumulate(lengths)]
        stored = self._extent_places[-1]
        if len(row.parts) == 1:
            self._part_places = [0, stored]
        else:
            self._part_places = [0, *accumulate(reader.part_length(*part) for part in row.parts)]
        if self._part_places[-1] != stored:
            raise DamageError(
                f"the chunks of {row.path.decode('utf-8', 'backslashreplace')} hold "
                f"{self._part_places[-1]} bytes where {stored} belong; run check"
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
            if number >= 0 and within < self._extents[number][1]:
                count = min(end - offset, self._extents[number][1] - within)
                pieces += self._stored(self._extent_places[number] + within, count)
            else:
                following = number + 1
                hole_end = (
                    self._extent_offsets[following] if following < len(self._extents) else end
                )
                count = min(end, hole_end) - offset
                pieces.append(bytes(count))
            offset += count
        return b"".join(pieces)

    def seek_data(self, offset: int) -> int | None:
        """The first place from `offset` on that holds data; None when only a hole follows."""
        for start, length in self._extents:
            if offset < start + length:
                return max(offset, start)
        return None

    def seek_hole(self, offset: int) -> int:
        """The first place from `offset` on that is in a hole; the end of the file is one."""
        for start, length in self._extents:
            if start <= offset < start + length:
                offset = start + length
        return min(offset, self.size)

    def _stored(self, place: int, count: int) -> list[memoryview]:
        """`count` bytes of the joined chunks."""
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
        """Bring the following chunks into the cache while somebody reads straight on."""
        with self._lock:
            straight_on = place == self._next_place
            self._next_place = end
            first = max(part + 1, self._prefetched)
            last = min(part + 1 + _READ_AHEAD_PARTS, len(self._parts))
            if not straight_on or first >= last:
                return
            self._prefetched = last
        for block_id, _ in self._parts[first:last]:
            self._reader.prefetch(block_id)
