"""The rows of an index: where each block is stored, and in whose pack.

About 50 bytes a block. A block belongs to the owner of its pack: a client, or all of them (SHARED).
"""

from __future__ import annotations

from array import array
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from strongroom.engine.content.digests import BLOCK_ID_SIZE
from strongroom.engine.repository.block_columns import OFFERED, THINNED
from strongroom.engine.repository.keys.owners import SHARED
from strongroom.engine.repository.packs import HEADER_SIZE, PackFooter

# The number of the owner SHARED in every index.
SHARED_NUMBER = 0


class BlockLocation(NamedTuple):
    """Where a block is stored: `stored_length` bytes at `offset` of a pack of `pack_bytes`."""

    pack_id: bytes
    number: int
    offset: int
    stored_length: int
    raw_length: int
    codec: int
    flags: int
    chunk_count: int
    pack_bytes: int


class BlockPlaces(Protocol):
    """The blocks that the snapshots of one client may refer to."""

    @property
    def owner(self) -> bytes:
        """The id of the client."""

    def locate(self, block_id: bytes) -> BlockLocation:
        """Where a block is; DamageError when no pack that the client may refer to has it."""

    def copies(self, block_id: bytes) -> list[BlockLocation]:
        """Every location of a block: for when the first one fails."""


class NewReferences(Protocol):
    """What new references may be made to."""

    def has_blocks(self, block_ids: bytes) -> NDArray[np.bool_]:
        """Which of n * 24 bytes of ids are in a pack that may be referred to."""


class PlacesByClient(Protocol):
    """An index, as who reads snapshots of several clients uses it."""

    def of_client(self, owner: bytes) -> BlockPlaces:
        """The blocks that snapshots of a client may refer to."""


class IndexedPack(NamedTuple):
    """A pack in the index; its blocks are `block_count` rows from `first_row` on.

    owner: the number of its owner in the index.
    """

    pack_id: bytes
    owner: int
    kind: int
    size_bytes: int
    first_row: int
    block_count: int
    marked: bool


class BlockRows:
    """Packs and the rows of their blocks, by number. has_shared: whether any pack is shared."""

    def __init__(self) -> None:
        self._packs: list[IndexedPack] = []
        self._pack_numbers: dict[bytes, int] = {}
        self._owners = {SHARED: SHARED_NUMBER}
        # Of each pack whether it is marked; asked for every directory of a backup.
        self._marks = bytearray()
        self.has_shared = False
        self._block_ids = bytearray()
        self._codecs = bytearray()
        self._stored_lengths = array("I")
        self._raw_lengths = array("I")
        self._chunk_counts = array("H")
        self._flags = bytearray()
        self._offsets = array("Q")
        self._pack_of = array("I")

    def __len__(self) -> int:
        """Blocks known."""
        return len(self._codecs)

    @property
    def owners(self) -> list[bytes]:
        """The owner of each number."""
        return list(self._owners)

    def number_of(self, owner: bytes) -> int:
        """The number of an owner, also of one without packs."""
        return self._owners.setdefault(owner, len(self._owners))

    def location_of(self, row: int) -> BlockLocation:
        """Where the block of a row is."""
        pack = self._packs[self._pack_of[row]]
        return BlockLocation(
            pack.pack_id,
            row - pack.first_row,
            self._offsets[row],
            self._stored_lengths[row],
            self._raw_lengths[row],
            self._codecs[row],
            self._flags[row],
            self._chunk_counts[row],
            pack.size_bytes,
        )

    def is_marked(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which blocks are in packs that are about to be removed."""
        if 1 not in self._marks:
            return np.zeros(len(rows), np.bool_)
        marked = np.frombuffer(self._marks, np.bool_)
        found: NDArray[np.bool_] = marked[np.frombuffer(self._pack_of, np.uint32)[rows]]
        return found

    def rows_with(self, block_id: bytes) -> NDArray[np.int64]:
        """Every row of a block, anyone who owns it. Scans all ids."""
        wanted = np.frombuffer(block_id, np.uint64)
        ids = np.frombuffer(self._block_ids, np.uint64).reshape(-1, len(wanted))
        return np.flatnonzero((ids == wanted).all(axis=1))

    @property
    def owners_of_rows(self) -> NDArray[np.int64]:
        """For each block the number of its owner."""
        owners = np.array([pack.owner for pack in self._packs], np.int64)
        return owners[self.pack_numbers]

    def block_ids(self, first_row: int = 0, count: int | None = None) -> bytes:
        """The ids of `count` blocks (all the rest if None) from a row on, joined."""
        last = len(self._codecs) if count is None else first_row + count
        return bytes(self._block_ids[first_row * BLOCK_ID_SIZE : last * BLOCK_ID_SIZE])

    def chunk_counts_of(self, rows: NDArray[np.int64]) -> NDArray[np.uint16]:
        """Chunks of the blocks of some rows."""
        counts: NDArray[np.uint16] = np.frombuffer(self._chunk_counts, np.uint16)[rows]
        return counts

    @property
    def raw_lengths(self) -> NDArray[np.uint32]:
        """Raw bytes of each block without its dropped chunks; like the next three, per copy."""
        return np.array(self._raw_lengths, np.uint32)

    @property
    def stored_lengths(self) -> NDArray[np.uint32]:
        """Bytes that each block takes in its pack."""
        return np.array(self._stored_lengths, np.uint32)

    @property
    def thinned(self) -> NDArray[np.bool_]:
        """Which blocks have lost chunks."""
        return (np.array(self._flags, np.uint8) & THINNED).astype(np.bool_)

    @property
    def offered(self) -> NDArray[np.bool_]:
        """Which blocks have ids under the common keys."""
        return (np.array(self._flags, np.uint8) & OFFERED).astype(np.bool_)

    def are_offered(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which blocks of some rows have ids under the common keys."""
        return (np.frombuffer(self._flags, np.uint8)[rows] & OFFERED).astype(np.bool_)

    @property
    def pack_numbers(self) -> NDArray[np.uint32]:
        """For each block the position of its pack in `packs`."""
        return np.array(self._pack_of, np.uint32)

    def packs_of_rows(self, rows: NDArray[np.int64]) -> NDArray[np.uint32]:
        """The same for the blocks of some rows."""
        numbers: NDArray[np.uint32] = np.frombuffer(self._pack_of, np.uint32)[rows]
        return numbers

    def lost_blocks(self, bad_rows: NDArray[np.bool_]) -> set[tuple[bytes, bytes]]:
        """Owner and id of blocks of which every copy in packs of that owner is bad."""
        if not bad_rows.any():
            return set()
        ids = np.frombuffer(self.block_ids(), np.dtype((np.void, BLOCK_ID_SIZE))).tolist()
        owners = self.owners
        rows = zip(self.owners_of_rows.tolist(), ids, bad_rows.tolist(), strict=True)
        good: set[tuple[int, bytes]] = set()
        bad: set[tuple[int, bytes]] = set()
        for owner, block_id, is_bad in rows:
            (bad if is_bad else good).add((owner, block_id))
        return {(owners[owner], block_id) for owner, block_id in bad - good}

    def packs(self) -> list[IndexedPack]:
        """Every pack known."""
        return list(self._packs)

    def pack(self, pack_id: bytes) -> IndexedPack | None:
        """One pack, or None when the index does not know it."""
        number = self._pack_numbers.get(pack_id)
        return None if number is None else self._packs[number]

    def number_of_pack(self, pack_id: bytes) -> int | None:
        """The position of a pack in `packs`, or None when the index does not know it."""
        return self._pack_numbers.get(pack_id)

    def add_pack(self, footer: PackFooter, *, marked: bool) -> bool:
        """Add the rows of a pack; False when it is there already."""
        if footer.pack_id in self._pack_numbers:
            return False
        columns = footer.columns
        count = columns.block_count
        number = len(self._packs)
        first_row = len(self._codecs)
        owner = self.number_of(footer.owner)
        self._pack_numbers[footer.pack_id] = number
        self._marks.append(marked)
        self.has_shared |= owner == SHARED_NUMBER
        self._packs.append(
            IndexedPack(
                footer.pack_id, owner, footer.kind, footer.size_bytes, first_row, count, marked
            )
        )
        if not count:
            # As most are where few blocks are selected.
            return True
        self._block_ids += columns.block_ids
        self._codecs += columns.codecs
        self._stored_lengths.frombytes(columns.stored_lengths)
        self._raw_lengths.frombytes(columns.raw_lengths)
        self._chunk_counts.frombytes(columns.chunk_counts)
        self._flags += columns.flags
        ends = np.cumsum(np.frombuffer(columns.stored_lengths, "<u4"), dtype=np.uint64)
        starts = ends - np.frombuffer(columns.stored_lengths, "<u4") + np.uint64(HEADER_SIZE)
        self._offsets.frombytes(starts.tobytes())
        self._pack_of.extend([number] * count)
        return True
