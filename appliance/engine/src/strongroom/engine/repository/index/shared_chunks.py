"""Which chunks the shared packs have: what a client's thinned blocks leave to them.

A chunk that was shared may lose its bytes in the packs of those who stored it. Its id remains in
their footers, under the common key, and leads here. About 38 bytes a chunk.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from strongroom.engine.content.digests import BLOCK_ID_SIZE, CHUNK_ID_SIZE
from strongroom.engine.repository.block_columns import (
    OFFERED,
    BlockColumns,
    chunk_starts,
    dead_flags,
)
from strongroom.engine.repository.index.id_table import IdTable
from strongroom.engine.repository.index.objects import read_index_head, read_index_object
from strongroom.engine.repository.keys.owners import SHARED
from strongroom.engine.repository.keys.roles import Key
from strongroom.engine.repository.listing.page import PageParts
from strongroom.engine.repository.packs import KIND_DATA
from strongroom.engine.stores.store import Store

if TYPE_CHECKING:
    from strongroom.engine.repository.index.index import Index
    from strongroom.engine.repository.index.live_blocks import LiveBlocks

_SLOT_BITS = 16


class SharedChunks:
    """Chunks of shared packs by id; for one thread at a time."""

    def __init__(self, parts: Iterable[BlockColumns] = ()) -> None:
        """parts: the columns of the packs that count."""
        self._table = IdTable(CHUNK_ID_SIZE)
        self._block_ids = bytearray()
        counts = [self._add(columns) for columns in parts]
        self._chunk_counts = np.concatenate([np.zeros(0, np.int64), *counts])

    @classmethod
    def load(
        cls,
        store: Store,
        key: Key,
        index: Index,
        without: Collection[bytes] = (),
        *,
        marked: bool = False,
    ) -> SharedChunks:
        """Those of an index, except packs in `without` and, unless `marked`, marked ones.

        ObjectMissingError when an index object was replaced meanwhile: reload the index.
        """
        return cls(_columns(store, key, index, without, marked=marked))

    def __len__(self) -> int:
        return len(self._table)

    def has(self, chunk_ids: bytes) -> NDArray[np.bool_]:
        """Which of n * 24 bytes of ids are there."""
        return self._table.find(chunk_ids) >= 0

    def covers(self, columns: BlockColumns) -> NDArray[np.bool_]:
        """For each chunk of a client's blocks whether it was offered and is there."""
        if not len(self._table):
            return np.zeros(columns.chunk_count, np.bool_)
        offered = (np.frombuffer(columns.flags, np.uint8) & OFFERED).astype(np.bool_)
        counts = np.frombuffer(columns.chunk_counts, "<u2")
        covered = np.repeat(offered, counts)
        if covered.any():
            ids = np.frombuffer(columns.chunk_ids, np.uint8).reshape(-1, CHUNK_ID_SIZE)
            covered[covered] = self.has(ids[covered].tobytes())
        return covered

    def rows_of(self, chunk_ids: bytes) -> NDArray[np.int64]:
        """The place in `block_ids` of the block of each of n * 24 bytes of ids, -1 for none."""
        return self._table.find(chunk_ids) >> _SLOT_BITS

    @property
    def block_ids(self) -> bytes:
        """The ids of the shared blocks, joined."""
        return bytes(self._block_ids)

    def mark(self, chunk_ids: bytes, live: LiveBlocks) -> None:
        """Mark chunks by n * 24 bytes of ids, all of which are there."""
        values = self._table.find(chunk_ids)
        rows, places = np.unique(values >> _SLOT_BITS, return_inverse=True)
        ids = np.frombuffer(self._block_ids, np.uint8).reshape(-1, BLOCK_ID_SIZE)[rows]
        slots = values & ((1 << _SLOT_BITS) - 1)
        parts = PageParts(ids.tobytes(), places.astype(np.int64), slots)
        live.mark_shared(parts, self._chunk_counts[rows])

    def _add(self, columns: BlockColumns) -> NDArray[np.int64]:
        first = len(self._block_ids) // BLOCK_ID_SIZE
        self._block_ids += columns.block_ids
        starts = chunk_starts(columns.chunk_counts)
        counts = np.diff(starts)
        rows = np.repeat(np.arange(first, first + len(counts), dtype=np.int64), counts)
        slots = np.arange(columns.chunk_count, dtype=np.int64) - np.repeat(starts[:-1], counts)
        live = ~dead_flags(columns)
        ids = np.frombuffer(columns.chunk_ids, np.uint8).reshape(-1, CHUNK_ID_SIZE)[live]
        self._table.add_many(ids.tobytes(), (rows << _SLOT_BITS | slots)[live])
        return counts


def _columns(
    store: Store, key: Key, index: Index, without: Collection[bytes], *, marked: bool
) -> Iterable[BlockColumns]:
    if not index.has_shared:
        return
    for name in index.object_names:
        head = read_index_head(store, name)
        if head.owner != SHARED:
            continue
        for footer in read_index_object(store, key, name, chunks=True, head=head).footers:
            pack = index.pack(footer.pack_id)
            if pack is None or footer.kind != KIND_DATA or footer.pack_id in without:
                continue
            if marked or not pack.marked:
                yield footer.columns
