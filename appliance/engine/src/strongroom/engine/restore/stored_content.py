"""Reads content of a repository for restore and verify.

A block of small files is decoded once for a whole task, wherever its files are in the task: the
task announces which chunks it will need (`expect`), and the first request for a block extracts
all of them. After many backups the small files of a directory are in many blocks, and a cache of
blocks alone would decode each of them many times.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from strongroom.base.errors import DamageError
from strongroom.engine.repository.blocks import BlockReader
from strongroom.engine.rows.rows import BLOCK_ID_BYTES, Rows

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
        # Chunks by block and slot, and those of them that will be requested more than once.
        self._ready: dict[bytes, dict[int, bytes | memoryview]] = {}
        self._repeated: dict[tuple[bytes, int], int] = {}

    def expect(self, tasks: Iterable[tuple[Rows, frozenset[int]]]) -> None:
        """Announce the rows to be restored next, all but those given by number.

        Earlier announcements that were not requested are dropped.
        """
        self._ready.clear()
        self._repeated.clear()
        expected = self._expected = {}
        large: dict[bytes, None] = {}
        for rows, skipped in tasks:
            blocks, slots, part = rows.part_blocks, rows.part_slots, 0
            last = b""
            for number, count in enumerate(rows.part_counts):
                if count == 1 and number not in skipped:
                    block_id = blocks[part * BLOCK_ID_BYTES : (part + 1) * BLOCK_ID_BYTES]
                    if block_id != last:
                        wanted = expected.setdefault(block_id, {})
                        last = block_id
                    slot = slots[part]
                    wanted[slot] = wanted.get(slot, 0) + 1
                elif count > 1 and number not in skipped:
                    for at in range(part, part + count):
                        large[blocks[at * BLOCK_ID_BYTES : (at + 1) * BLOCK_ID_BYTES]] = None
                part += count
        self._reader.read_ahead(expected, large)

    def expect_parts(self, parts: Iterable[tuple[bytes, int]]) -> None:
        """Announce parts of a large file, to be restored next."""
        self._reader.read_ahead((), (block_id for block_id, _ in parts))

    def chunk(self, block_id: bytes, slot: int) -> bytes | memoryview:
        """The verified bytes of a part. Raises DamageError."""
        ready = self._ready.get(block_id)
        if ready is None:
            if block_id not in self._expected:
                return self._reader.chunk(block_id, slot)
            ready = self._take_out(block_id)
        data = ready.pop(slot, None)
        if data is None:
            return self._reader.chunk(block_id, slot)
        if self._repeated and (uses := self._repeated.pop((block_id, slot), 0)):
            ready[slot] = data
            if uses > 1:
                self._repeated[block_id, slot] = uses - 1
        elif not ready:
            del self._ready[block_id]
        return data

    def length(self, block_id: bytes, slot: int) -> int:
        """The length of a part, without reading it. Raises DamageError."""
        return self._reader.chunk_length(block_id, slot)

    def is_chunk(self, block_id: bytes, slot: int, data: bytes | memoryview) -> bool:
        """Whether `data` is the part, without reading that. Raises DamageError."""
        return self._reader.is_chunk(block_id, slot, data)

    def _take_out(self, block_id: bytes) -> dict[int, bytes | memoryview]:
        """Read all announced chunks of a block; damaged ones are left out."""
        wanted = self._expected.pop(block_id)
        ready: dict[int, bytes | memoryview] = {}
        # Damage is raised, with the name of the file, when the chunk is requested.
        with suppress(DamageError):
            ready.update(self._reader.chunks(block_id, wanted))
        if sum(map(len, ready.values())) * _COPY_BELOW < _AVERAGE_BLOCK_BYTES:
            ready = {slot: bytes(data) for slot, data in ready.items()}
        for slot, uses in wanted.items():
            if uses > 1:
                self._repeated[block_id, slot] = uses - 1
        if ready:
            self._ready[block_id] = ready
        return ready
