"""Which chunks there are, and where: the table that deduplicates a backup.

What the backup adds is in memory, about 50 bytes a chunk; what the repository has is looked up in
the kept index. Safe from any thread: one lock guards everything.
"""

from __future__ import annotations

import threading

import numpy as np
from numpy.typing import NDArray

from strongroom.engine.content.digests import BLOCK_ID_SIZE, CHUNK_ID_SIZE
from strongroom.engine.repository.block_columns import BlockColumns, chunk_starts, dead_flags
from strongroom.engine.repository.index.id_table import IdTable
from strongroom.engine.repository.index.kept_index import KeptIndex, Reference

_SLOT_BITS = 16
_BLOCK_ID = np.dtype((np.void, BLOCK_ID_SIZE))
_CHUNK_ID = np.dtype((np.void, CHUNK_ID_SIZE))


class ChunkTable:
    """References (block id, slot) by chunk id."""

    def __init__(self, kept: KeptIndex | None = None) -> None:
        """kept: what the repository has, its chunks loaded."""
        self._lock = threading.Lock()
        self._kept = kept
        self._table = IdTable(CHUNK_ID_SIZE)
        self._block_ids = bytearray()

    def __len__(self) -> int:
        """Chunks that were added."""
        with self._lock:
            return len(self._table)

    def claim(self, ids: bytes) -> dict[int, Reference]:
        """Where those of n * 24 bytes of ids are that are known, by their number."""
        with self._lock:
            found = self._table.find(ids)
            known = (found >= 0).nonzero()[0]
            places = {} if self._kept is None else self._kept.claim(ids)
            if len(known):
                places.update(zip(known.tolist(), self._places(found[known]), strict=True))
            return places

    def add(self, block_id: bytes, ids: bytes) -> None:
        """The chunks of a new block, in the order of their slots; n * 24 bytes of ids."""
        with self._lock:
            self._table.add(ids, self._next_values(ids))
            self._block_ids += block_id

    def add_if_new(self, block_id: bytes, ids: bytes) -> bool:
        """`add`, if it is quickly known that none of the chunks is known; whether it was."""
        with self._lock:
            if self._kept is not None and self._kept.claim(ids):
                return False
            is_new = self._table.add_if_new(ids, self._next_values(ids))
            if is_new:
                self._block_ids += block_id
            return is_new

    def add_columns(self, parts: list[BlockColumns]) -> None:
        """All live chunks of many packs at once; `parts` is emptied."""
        if not parts:
            return
        with self._lock:
            self._table.add_columns(*self._gather(parts))

    def _next_values(self, ids: bytes) -> range:
        """The values of the chunks of the block that comes next."""
        base = (len(self._block_ids) // BLOCK_ID_SIZE) << _SLOT_BITS
        return range(base, base + len(ids) // CHUNK_ID_SIZE)

    def _gather(
        self, parts: list[BlockColumns]
    ) -> tuple[list[NDArray[np.uint64]], NDArray[np.int64]]:
        """The words of all live ids as columns, and their values; `parts` is emptied."""
        room = sum(columns.chunk_count for columns in parts)
        words = np.empty((CHUNK_ID_SIZE // 8, room), np.uint64)
        values = np.empty(room, np.int64)
        count = 0
        parts.reverse()
        while parts:
            # Each part is freed once it is copied: there may be millions of chunks.
            columns = parts.pop()
            taken = self._take_blocks(columns)
            end = count + len(taken)
            values[count:end] = taken
            ids = np.frombuffer(_live_ids(columns), np.uint64)
            words[:, count:end] = ids.reshape(len(taken), -1).T
            count = end
        return [words[number, :count].copy() for number in range(len(words))], values[:count]

    def _take_blocks(self, columns: BlockColumns) -> NDArray[np.int64]:
        first = len(self._block_ids) // BLOCK_ID_SIZE
        self._block_ids += columns.block_ids
        starts = chunk_starts(columns.chunk_counts)
        counts = np.diff(starts)
        blocks = np.repeat(np.arange(first, first + len(counts), dtype=np.int64), counts)
        slots = np.arange(columns.chunk_count, dtype=np.int64) - np.repeat(starts[:-1], counts)
        values: NDArray[np.int64] = blocks << _SLOT_BITS | slots
        live = _live_flags(columns)
        return values if live is None else values[live]

    def _places(self, values: NDArray[np.int64]) -> list[Reference]:
        block_ids = np.frombuffer(self._block_ids, _BLOCK_ID)[values >> _SLOT_BITS].tolist()
        return list(zip(block_ids, (values & 0xFFFF).tolist(), strict=True))


def _live_flags(columns: BlockColumns) -> NDArray[np.bool_] | None:
    return ~dead_flags(columns) if columns.dead else None


def _live_ids(columns: BlockColumns) -> bytes:
    live = _live_flags(columns)
    if live is None:
        return columns.chunk_ids
    return np.frombuffer(columns.chunk_ids, _CHUNK_ID)[live].tobytes()
