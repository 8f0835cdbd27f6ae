"""Which chunks the repository has, and where: the table that deduplicates a backup.

At most 48 bytes a chunk: the id, a number that names block and slot, and the block ids beside.
Packs that are marked for removal are not in it. Safe from any thread: one lock guards everything.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import numpy as np

from strongroom.content.digests import BLOCK_ID_SIZE, CHUNK_ID_SIZE
from strongroom.repo.block_columns import BlockColumns, chunk_starts, dead_flags
from strongroom.repo.id_table import IdTable

if TYPE_CHECKING:
    from strongroom.repo.index import Index

Reference = tuple[bytes, int]

_SLOT_BITS = 16


class ChunkTable:
    """References (block id, slot) by chunk id."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._table = IdTable(CHUNK_ID_SIZE)
        self._block_ids = bytearray()

    @classmethod
    def load(cls, index: Index) -> ChunkTable:
        """All chunks of data packs of an index loaded with chunks, but for marked packs."""
        table = cls()
        for columns in index.deduplicated_columns():
            table.add_columns(columns)
        return table

    def __len__(self) -> int:
        with self._lock:
            return len(self._table)

    def claim(self, ids: bytes) -> list[Reference | None]:
        """For each of n * 24 bytes of ids the place of that chunk, or None where it is new."""
        with self._lock:
            found = self._table.find(ids)
            if found.max(initial=-1) < 0:
                return [None] * len(found)
            block_ids = self._block_ids
            references: list[Reference | None] = []
            for value in found.tolist():
                if value < 0:
                    references.append(None)
                else:
                    at = (value >> _SLOT_BITS) * BLOCK_ID_SIZE
                    references.append((bytes(block_ids[at : at + BLOCK_ID_SIZE]), value & 0xFFFF))
            return references

    def add(self, block_id: bytes, ids: bytes) -> None:
        """The chunks of a new block, in the order of their slots; n * 24 bytes of ids."""
        with self._lock:
            base = (len(self._block_ids) // BLOCK_ID_SIZE) << _SLOT_BITS
            self._block_ids += block_id
            self._table.add(ids, range(base, base + len(ids) // CHUNK_ID_SIZE))

    def add_columns(self, columns: BlockColumns) -> None:
        """All live chunks of many blocks at once."""
        starts = chunk_starts(columns.chunk_counts)
        counts = np.diff(starts)
        with self._lock:
            first = len(self._block_ids) // BLOCK_ID_SIZE
            blocks = np.repeat(np.arange(first, first + len(counts), dtype=np.int64), counts)
            slots = np.arange(columns.chunk_count, dtype=np.int64) - np.repeat(starts[:-1], counts)
            values = blocks << _SLOT_BITS | slots
            self._block_ids += columns.block_ids
            thinned = np.flatnonzero(np.frombuffer(columns.thinned, np.uint8))
            if not len(thinned):
                self._table.add_many(columns.chunk_ids, values)
                return
            live = np.ones(columns.chunk_count, np.bool_)
            for block in thinned.tolist():
                live[starts[block] : starts[block + 1]] = ~dead_flags(columns, block)
            ids = np.frombuffer(columns.chunk_ids, np.uint64).reshape(-1, CHUNK_ID_SIZE // 8)
            self._table.add_many(ids[live].tobytes(), values[live])
