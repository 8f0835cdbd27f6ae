"""Reads content of a repository for restore and verify.

A block of small files is decoded once for a whole task, wherever its files are in the task: the
task announces which chunks it will need (`expect`), and the first request for a block extracts
all of them. After many backups the small files of a directory are in many blocks, and a cache of
blocks alone would decode each of them many times.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strongroom.errors import DamageError
from strongroom.rows.rows import BLOCK_ID_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strongroom.repo.blocks import BlockReader
    from strongroom.rows.rows import Rows

# If less than one in so many bytes of a block is wanted, chunks are copied out of it; otherwise
# they are views that keep the block in memory until the last one is used.
_COPY_BELOW: Final = 4
_AVERAGE_BLOCK_BYTES: Final = 1 << 20


class StoredContent:
    """A ContentSource over a BlockReader."""

    def __init__(self, reader: BlockReader) -> None:
        self._reader = reader
        # Of each block not yet read, the slots that will be requested, and how often.
        self._expected: dict[bytes, dict[int, int]] = {}
        self._ready: dict[tuple[bytes, int], tuple[bytes | memoryview, int]] = {}

    def expect(self, tasks: Iterable[tuple[Rows, frozenset[int]]]) -> None:
        """Announce the rows to be restored next, all but those given by number.

        Earlier announcements that were not requested are dropped.
        """
        self._ready.clear()
        expected = self._expected = {}
        for rows, skipped in tasks:
            blocks, slots, part = rows.part_blocks, rows.part_slots, 0
            for number, count in enumerate(rows.part_counts):
                if count == 1 and number not in skipped:
                    block_id = blocks[part * BLOCK_ID_BYTES : (part + 1) * BLOCK_ID_BYTES]
                    wanted = expected.setdefault(block_id, {})
                    wanted[slots[part]] = wanted.get(slots[part], 0) + 1
                part += count

    def chunk(self, block_id: bytes, slot: int) -> bytes | memoryview:
        """The verified bytes of a part. Raises DamageError."""
        found = self._ready.pop((block_id, slot), None)
        if found is None:
            if block_id not in self._expected:
                return self._reader.chunk(block_id, slot)
            self._take_out(block_id)
            found = self._ready.pop((block_id, slot), None)
            if found is None:
                return self._reader.chunk(block_id, slot)
        data, uses = found
        if uses > 1:
            self._ready[block_id, slot] = (data, uses - 1)
        return data

    def length(self, block_id: bytes, slot: int) -> int:
        """The length of a part, without reading it. Raises DamageError."""
        return self._reader.chunk_length(block_id, slot)

    def is_chunk(self, block_id: bytes, slot: int, data: bytes | memoryview) -> bool:
        """Whether `data` is the part, without reading that. Raises DamageError."""
        return self._reader.is_chunk(block_id, slot, data)

    def _take_out(self, block_id: bytes) -> None:
        """Read all announced chunks of a block; damaged ones are left out."""
        taken: list[tuple[int, int, memoryview]] = []
        for slot, uses in self._expected.pop(block_id).items():
            try:
                taken.append((slot, uses, self._reader.chunk(block_id, slot)))
            except DamageError:
                # It is raised, with the name of the file, when this chunk is requested.
                continue
        copies = sum(len(data) for _, _, data in taken) * _COPY_BELOW < _AVERAGE_BLOCK_BYTES
        for slot, uses, data in taken:
            self._ready[block_id, slot] = (bytes(data) if copies else data, uses)
