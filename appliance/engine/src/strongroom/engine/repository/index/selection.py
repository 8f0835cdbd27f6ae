"""Some of the blocks of an index: a job over all of them needs memory for one part at a time.

Packs are all there in any part; what is selected is which rows they have. So a part answers for its
ids, and for all copies of them.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from strongroom.engine.content.digests import BLOCK_ID_SIZE, CHUNK_ID_SIZE
from strongroom.engine.repository.block_columns import OFFERED, BlockColumns, dead_starts
from strongroom.engine.repository.index.id_table import IdTable
from strongroom.engine.repository.index.sorted_file import KeyMix, words_of
from strongroom.engine.repository.packs import KIND_LISTING

# Bytes of a row in each column, of blocks and of chunks.
_OF_BLOCKS: Final = {
    "block_ids": BLOCK_ID_SIZE,
    "codecs": 1,
    "stored_lengths": 4,
    "raw_lengths": 4,
    "chunk_counts": 2,
    "flags": 1,
}
_OF_CHUNKS: Final = {"chunk_ids": CHUNK_ID_SIZE, "chunk_lengths": 4}


class DescribedPacks(Protocol):
    """Packs of an index object."""

    @property
    def pack_ids(self) -> list[bytes]:
        """Their ids."""

    @property
    def kinds(self) -> bytes:
        """The kind of each."""

    @property
    def block_counts(self) -> list[int]:
        """How many blocks each has."""


class BlockSelection(Protocol):
    """Which blocks are selected."""

    def rows(self, packs: DescribedPacks, columns: BlockColumns) -> NDArray[np.bool_]:
        """Which blocks of an index object; columns: of all of them."""


class IdRange:
    """One of so many parts of all ids: those whose keys begin alike."""

    def __init__(self, secret: bytes, number: int, count: int) -> None:
        """secret: 32 random bytes, the same for all parts: no client can store ids of one part."""
        self._mix = KeyMix(secret)
        self._number = number
        self._width = np.uint64((1 << 64) // count + 1)

    def has(self, block_ids: bytes) -> NDArray[np.bool_]:
        """Which of n * 24 bytes of ids."""
        keys = self._mix.keys(words_of(block_ids))
        found: NDArray[np.bool_] = keys // self._width == self._number
        return found

    def rows(self, packs: DescribedPacks, columns: BlockColumns) -> NDArray[np.bool_]:
        """See BlockSelection."""
        return self.has(columns.block_ids)


class IdsAmong:
    """Ids that are given, joined; of equal ones one counts."""

    def __init__(self, block_ids: bytes = b"") -> None:
        self._table = IdTable(BLOCK_ID_SIZE)
        self.add(block_ids)

    def add(self, block_ids: bytes) -> None:
        """Add others."""
        self._table.add_many(block_ids, np.zeros(len(block_ids) // BLOCK_ID_SIZE, np.int64))

    def has(self, block_ids: bytes) -> NDArray[np.bool_]:
        """Which of n * 24 bytes of ids."""
        return self._table.find(block_ids) >= 0

    def rows(self, packs: DescribedPacks, columns: BlockColumns) -> NDArray[np.bool_]:
        """See BlockSelection."""
        return self.has(columns.block_ids)


SomeIds = IdRange | IdsAmong


class PacksAmong:
    """All blocks of packs that are given by their ids; without any, the index has packs only."""

    def __init__(self, pack_ids: Collection[bytes] = ()) -> None:
        self._pack_ids = pack_ids

    def rows(self, packs: DescribedPacks, columns: BlockColumns) -> NDArray[np.bool_]:
        """See BlockSelection."""
        wanted = [pack_id in self._pack_ids for pack_id in packs.pack_ids]
        return np.repeat(np.array(wanted, np.bool_), packs.block_counts)


class PacksHolding:
    """All blocks of packs that have any of some ids, so that their places are known."""

    def __init__(self, block_ids: bytes) -> None:
        self._ids = IdsAmong(block_ids)

    def rows(self, packs: DescribedPacks, columns: BlockColumns) -> NDArray[np.bool_]:
        """See BlockSelection."""
        counts = np.array(packs.block_counts, np.int64)
        numbers = np.repeat(np.arange(len(counts)), counts)
        held = np.bincount(numbers[self._ids.has(columns.block_ids)], minlength=len(counts)) > 0
        return np.repeat(held, counts)


class OfferedBlocks:
    """Those with ids under the common keys: what clients offer, and shared packs."""

    def rows(self, packs: DescribedPacks, columns: BlockColumns) -> NDArray[np.bool_]:
        """See BlockSelection."""
        found: NDArray[np.bool_] = (np.frombuffer(columns.flags, np.uint8) & OFFERED).astype(
            np.bool_
        )
        return found


class ListingPacks:
    """What is needed to read listings: a thousandth of all blocks, and whole packs."""

    def rows(self, packs: DescribedPacks, columns: BlockColumns) -> NDArray[np.bool_]:
        """See BlockSelection."""
        kinds = np.frombuffer(packs.kinds, np.uint8)
        return np.repeat(kinds == KIND_LISTING, packs.block_counts)


def only_blocks(columns: BlockColumns, kept: NDArray[np.bool_]) -> BlockColumns:
    """The columns of some blocks; with their chunks where they have any."""
    counts = np.frombuffer(columns.chunk_counts, "<u2")
    chunks = np.repeat(kept, counts) if columns.chunk_lengths else np.zeros(0, np.bool_)
    dead = np.repeat(kept, np.diff(dead_starts(columns))) if columns.dead else chunks[:0]
    rows = {name: _rows(getattr(columns, name), size, kept) for name, size in _OF_BLOCKS.items()}
    for name, size in _OF_CHUNKS.items():
        rows[name] = _rows(getattr(columns, name), size, chunks)
    return BlockColumns(**rows, dead=_rows(columns.dead, 1, dead))


def _rows(column: bytes, width: int, kept: NDArray[np.bool_]) -> bytes:
    return np.frombuffer(column, np.uint8).reshape(-1, width)[kept].tobytes()
