"""The index in memory: in which pack, and where in it, a block is.

A block belongs to the owner of its pack: a client, or all of them (SHARED). A client's snapshots
refer to its own blocks and to shared ones, so blocks are looked up for a client (`ClientBlocks`);
another client's block of the same id does not count.

About 80 bytes a block; the columns of chunks, a thousand times as many where files are small, are
loaded only on request, and released by `release_chunks`. Concurrent reads are safe while nothing
is added.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from strongroom.content.digests import BLOCK_ID_SIZE
from strongroom.errors import (
    DamageError,
    KeyRightError,
    ObjectMissingError,
    UnknownFormatError,
)
from strongroom.repo.block_columns import OFFERED, THINNED
from strongroom.repo.index.client_blocks import ClientBlocks
from strongroom.repo.index.objects import read_index_head, read_index_object
from strongroom.repo.index.owned_ids import OwnedIds
from strongroom.repo.keys.owners import SHARED
from strongroom.repo.packs import HEADER_SIZE, KIND_DATA
from strongroom.repo.tombstones import read_tombstones

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from strongroom.repo.block_columns import BlockColumns
    from strongroom.repo.keys.roles import Key
    from strongroom.repo.packs import PackFooter
    from strongroom.stores.store import Store

_LOAD_ATTEMPTS = 5
# The number of the owner SHARED in every index.
SHARED_NUMBER = 0


class BlockLocation(NamedTuple):
    """Where a block is stored: `stored_length` bytes at `offset` of a pack."""

    pack_id: bytes
    number: int
    offset: int
    stored_length: int
    raw_length: int
    codec: int
    flags: int
    chunk_count: int


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


class Index:
    """Blocks by id, and packs."""

    def __init__(self) -> None:
        self._packs: list[IndexedPack] = []
        self._pack_numbers: dict[bytes, int] = {}
        self._table = OwnedIds()
        self._owners = {SHARED: SHARED_NUMBER}
        self._block_ids = bytearray()
        self._codecs = bytearray()
        self._stored_lengths = array("I")
        self._raw_lengths = array("I")
        self._chunk_counts = array("H")
        self._flags = bytearray()
        self._offsets = array("Q")
        self._pack_of = array("I")
        self._chunk_columns: list[tuple[int, BlockColumns]] = []
        self.object_names: tuple[str, ...] = ()
        self.superseded_names: tuple[str, ...] = ()

    @classmethod
    def load(
        cls, store: Store, key: Key, owner: bytes | None = None, *, chunks: bool = False
    ) -> Index:
        """The index of everything stored; with `chunks` ready for `ChunkTable.load`.

        owner: only of what that client may refer to. What the key does not open is left out.
        DamageError when an index object is not sound: repair rebuilds the index from packs.
        """
        for _ in range(_LOAD_ATTEMPTS):
            try:
                return cls._load(store, key, owner, chunks=chunks)
            except ObjectMissingError:
                # A prune replaced it since it was listed; its replacement exists by now.
                continue
        return cls._load(store, key, owner, chunks=chunks)

    @classmethod
    def _load(cls, store: Store, key: Key, owner: bytes | None, *, chunks: bool) -> Index:
        # Marks are read first: a pack marked later than this is kept until our lease ends.
        marked = {
            pack_id for tombstone in read_tombstones(store, key) for pack_id in tombstone.pack_ids
        }
        names = sorted(info.name for info in store.list("index"))
        # A doubted object replaces no other, and does not describe packs that others describe: the
        # first description counts. If it is invalid, that is not damage either.
        doubted = store.doubted("index")
        objects = []
        for name in sorted(names, key=lambda name: name in doubted):
            try:
                head = read_index_head(store, name)
                if owner is None or head.owner in (owner, SHARED):
                    objects.append(read_index_object(store, key, name, chunks=chunks, head=head))
            except ObjectMissingError:
                raise
            except KeyRightError:
                continue
            except (DamageError, UnknownFormatError):
                if name not in doubted:
                    raise
        superseded = {
            (an_object.owner, name)
            for an_object in objects
            if an_object.name not in doubted
            for name in an_object.superseded
        }
        current = [item for item in objects if (item.owner, item.name) not in superseded]
        footers = (footer for an_object in current for footer in an_object.footers)
        doubted_packs = {bytes.fromhex(name) for name in store.doubted("packs")}
        index = cls.of(footers, marked, doubted_packs, chunks=chunks)
        index.superseded_names = tuple(sorted(name for _, name in superseded))
        index.object_names = tuple(item.name for item in current)
        return index

    @classmethod
    def of(
        cls,
        footers: Iterable[PackFooter],
        marked: Collection[bytes],
        doubted: Collection[bytes] = (),
        *,
        chunks: bool = False,
    ) -> Index:
        """The index of some packs.

        Those in `marked` are about to be removed; those in `doubted` may not match their claims.
        """
        index = cls()
        for footer in footers:
            index._add_loaded(footer, marked=footer.pack_id in marked, chunks=chunks)
        order = index._preferred(doubted)
        ids = np.frombuffer(index._block_ids, np.uint8).reshape(-1, BLOCK_ID_SIZE)[order]
        index._table.add(ids.tobytes(), index.owners_of_rows[order], order)
        return index

    def __len__(self) -> int:
        """Blocks known."""
        return len(self._codecs)

    def add(self, footer: PackFooter) -> None:
        """Add a pack that was written or read just now; no effect if it is known already."""
        first_row = len(self._codecs)
        if self._add_pack(footer, marked=False):
            rows = range(first_row, len(self._codecs))
            self._table.add_recent(footer.columns.block_ids, self.number_of(footer.owner), rows)

    def of_client(self, owner: bytes) -> ClientBlocks:
        """The blocks that snapshots of a client may refer to."""
        return ClientBlocks(self, self._table, self.number_of(owner))

    @property
    def owners(self) -> list[bytes]:
        """The owner of each number."""
        return list(self._owners)

    @property
    def has_shared(self) -> bool:
        """Whether any pack is shared."""
        return any(pack.owner == SHARED_NUMBER for pack in self._packs)

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
        )

    def is_marked(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which blocks are in packs that are about to be removed."""
        if not any(pack.marked for pack in self._packs):
            return np.zeros(len(rows), np.bool_)
        marked = np.array([pack.marked for pack in self._packs], np.bool_)
        found: NDArray[np.bool_] = marked[np.frombuffer(self._pack_of, np.uint32)[rows]]
        return found

    def rows_with(self, block_id: bytes) -> NDArray[np.int64]:
        """Every row of a block, whoever owns it. Scans all ids."""
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

    def lost_blocks(self, bad_rows: NDArray[np.bool_]) -> set[tuple[bytes, bytes]]:
        """Owner and id of blocks of which every copy that its client may read is bad."""
        if not bad_rows.any():
            return set()
        ids = np.frombuffer(self.block_ids(), np.dtype((np.void, BLOCK_ID_SIZE))).tolist()
        owners = self.owners
        rows = zip(self.owners_of_rows.tolist(), ids, bad_rows.tolist(), strict=True)
        good: set[tuple[int, bytes]] = set()
        bad: set[tuple[int, bytes]] = set()
        for owner, block_id, is_bad in rows:
            (bad if is_bad else good).add((owner, block_id))
        return {
            (owners[owner], block_id)
            for owner, block_id in bad
            if (owner, block_id) not in good and (SHARED_NUMBER, block_id) not in good
        }

    def packs(self) -> list[IndexedPack]:
        """Every pack known."""
        return list(self._packs)

    def pack(self, pack_id: bytes) -> IndexedPack | None:
        """One pack, or None when the index does not know it."""
        number = self._pack_numbers.get(pack_id)
        return None if number is None else self._packs[number]

    def deduplicated_columns(self) -> Iterator[BlockColumns]:
        """The columns of data packs that are not marked, of an index loaded with chunks.

        An index that was loaded for one client.
        """
        for number, columns in self._chunk_columns:
            pack = self._packs[number]
            if pack.kind == KIND_DATA and not pack.marked:
                yield columns

    def columns_by_pack(self) -> Iterator[tuple[IndexedPack, BlockColumns]]:
        """Every pack with its columns, of an index loaded with chunks."""
        for number, columns in self._chunk_columns:
            yield self._packs[number], columns

    def exclude(self, pack_ids: Sequence[bytes]) -> None:
        """Treat packs as marked: new references to them are not allowed."""
        for pack_id in pack_ids:
            number = self._pack_numbers[pack_id]
            self._packs[number] = self._packs[number]._replace(marked=True)

    def release_chunks(self) -> None:
        """Release the memory of the chunk columns."""
        self._chunk_columns = []

    def _preferred(self, doubted: Collection[bytes]) -> NDArray[np.int64]:
        """Rows, of an owner's copies of a block the best first.

        One that is not doubted, then the one with the most bytes: a whole copy before a thinned
        one, even if it is marked, since a snapshot that began before the marking may need chunks
        that the other lacks.
        """
        marked = np.array([pack.marked for pack in self._packs], np.bool_)
        raw_lengths = self.raw_lengths.astype(np.int64)
        unsure = np.array([pack.pack_id in doubted for pack in self._packs], np.bool_)
        pack_numbers = self.pack_numbers
        return np.lexsort((marked[pack_numbers], -raw_lengths, unsure[pack_numbers]))

    def _add_loaded(self, footer: PackFooter, *, marked: bool, chunks: bool) -> None:
        number = len(self._packs)
        if self._add_pack(footer, marked=marked) and chunks:
            self._chunk_columns.append((number, footer.columns))

    def _add_pack(self, footer: PackFooter, *, marked: bool) -> bool:
        if footer.pack_id in self._pack_numbers:
            return False
        columns = footer.columns
        count = columns.block_count
        number = len(self._packs)
        first_row = len(self._codecs)
        owner = self.number_of(footer.owner)
        self._pack_numbers[footer.pack_id] = number
        self._packs.append(
            IndexedPack(
                footer.pack_id, owner, footer.kind, footer.size_bytes, first_row, count, marked
            )
        )
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
