"""The index in memory: in which pack, and where in it, a block is.

About 70 bytes a block; the columns of chunks, a thousand times as many where files are small, are
loaded only on request, and released by `release_chunks`. Concurrent reads are safe while nothing
is added.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from strongroom.content.digests import BLOCK_ID_SIZE, BLOCK_ID_WORDS
from strongroom.errors import DamageError, ObjectMissingError, UnknownFormatError
from strongroom.repo.index.id_table import IdTable
from strongroom.repo.index.objects import read_index_object
from strongroom.repo.packs import HEADER_SIZE, KIND_DATA
from strongroom.repo.tombstones import read_tombstones

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from strongroom.repo.block_columns import BlockColumns
    from strongroom.repo.keys import Key
    from strongroom.repo.packs import PackFooter
    from strongroom.stores.store import Store

_LOAD_ATTEMPTS = 5


class BlockLocation(NamedTuple):
    """Where a block is stored: `stored_length` bytes at `offset` of a pack."""

    pack_id: bytes
    number: int
    offset: int
    stored_length: int
    raw_length: int
    codec: int
    chunk_count: int


class IndexedPack(NamedTuple):
    """A pack in the index; its blocks are `block_count` rows from `first_row` on."""

    pack_id: bytes
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
        self._table = IdTable(BLOCK_ID_SIZE)
        self._block_ids = bytearray()
        self._codecs = bytearray()
        self._stored_lengths = array("I")
        self._raw_lengths = array("I")
        self._chunk_counts = array("H")
        self._thinned = bytearray()
        self._offsets = array("Q")
        self._pack_of = array("I")
        self._chunk_columns: list[tuple[int, BlockColumns]] = []
        self.object_names: tuple[str, ...] = ()
        self.superseded_names: tuple[str, ...] = ()

    @classmethod
    def load(cls, store: Store, key: Key, *, chunks: bool = False) -> Index:
        """The index of everything stored; with `chunks` ready for `ChunkTable.load`.

        DamageError when an index object is not sound: repair rebuilds the index from packs.
        """
        for _ in range(_LOAD_ATTEMPTS):
            try:
                return cls._load(store, key, chunks=chunks)
            except ObjectMissingError:
                # A prune replaced it since it was listed; its replacement exists by now.
                continue
        return cls._load(store, key, chunks=chunks)

    @classmethod
    def _load(cls, store: Store, key: Key, *, chunks: bool) -> Index:
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
                objects.append(read_index_object(store, key, name, chunks=chunks))
            except ObjectMissingError:
                raise
            except (DamageError, UnknownFormatError):
                if name not in doubted:
                    raise
        superseded = {
            name
            for an_object in objects
            if an_object.name not in doubted
            for name in an_object.superseded
        }
        current = [item for item in objects if item.name not in superseded]
        footers = (footer for an_object in current for footer in an_object.footers)
        doubted_packs = {bytes.fromhex(name) for name in store.doubted("packs")}
        index = cls.of(footers, marked, doubted_packs, chunks=chunks)
        index.superseded_names = tuple(sorted(superseded))
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
        order = index._order_of_preference(doubted)
        ids = np.frombuffer(index._block_ids, np.uint64).reshape(-1, BLOCK_ID_WORDS)[order]
        index._table.add_many(ids.tobytes(), order)
        return index

    def __len__(self) -> int:
        """Blocks known."""
        return len(self._codecs)

    def __contains__(self, block_id: bytes) -> bool:
        return self._table.find_one(block_id) >= 0

    def add(self, footer: PackFooter) -> None:
        """Add a pack that was written or read just now; no effect if it is known already."""
        first_row = len(self._codecs)
        if self._add_pack(footer, marked=False):
            self._table.add(footer.columns.block_ids, range(first_row, len(self._codecs)))

    def locate(self, block_id: bytes) -> BlockLocation:
        """Where a block is; DamageError when no pack of the index has it."""
        row = self._table.find_one(block_id)
        if row < 0:
            raise DamageError(
                f"block {block_id.hex()} is in no pack that the index knows; run repair"
            )
        return self.location_of(row)

    def copies(self, block_id: bytes) -> list[BlockLocation]:
        """Every location of a block. Scans all ids: only for when the first location fails."""
        wanted = np.frombuffer(block_id, np.uint64)
        ids = np.frombuffer(self._block_ids, np.uint64).reshape(-1, BLOCK_ID_WORDS)
        rows = np.flatnonzero((ids == wanted).all(axis=1))
        return [self.location_of(row) for row in rows.tolist()]

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
            self._chunk_counts[row],
        )

    def rows_of(self, block_ids: bytes) -> NDArray[np.int64]:
        """The row of each block (n * 24 bytes of ids), -1 for those not known."""
        return self._table.find(block_ids)

    def has_blocks(self, block_ids: bytes) -> NDArray[np.bool_]:
        """Which of n * 24 bytes of ids are in a pack that is not marked."""
        rows = self.rows_of(block_ids)
        known = rows >= 0
        if any(pack.marked for pack in self._packs):
            marked = np.array([pack.marked for pack in self._packs])
            known[known] = ~marked[np.frombuffer(self._pack_of, np.uint32)[rows[known]]]
        return known

    def block_ids(self, first_row: int = 0, count: int | None = None) -> bytes:
        """The ids of `count` blocks (all the rest if None) from a row on, joined."""
        last = len(self._codecs) if count is None else first_row + count
        return bytes(self._block_ids[first_row * BLOCK_ID_SIZE : last * BLOCK_ID_SIZE])

    def chunk_counts_of(self, rows: NDArray[np.int64]) -> NDArray[np.uint16]:
        """Chunks of the blocks of some rows."""
        counts: NDArray[np.uint16] = np.frombuffer(self._chunk_counts, np.uint16)[rows]
        return counts

    def packs_holding(self, block_ids: bytes) -> list[IndexedPack]:
        """Every pack with a copy of any of n * 24 bytes of ids; ids not known are passed over."""
        is_wanted = np.zeros(len(self) + 1, np.bool_)  # the last for -1
        is_wanted[self.rows_of(block_ids)] = True
        is_wanted[-1] = False
        best_copies = self.rows_of(bytes(self._block_ids))
        numbers = np.unique(self.pack_numbers[is_wanted[best_copies]])
        return [self._packs[number] for number in numbers.tolist()]

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
        return np.array(self._thinned, np.bool_)

    @property
    def pack_numbers(self) -> NDArray[np.uint32]:
        """For each block the position of its pack in `packs`."""
        return np.array(self._pack_of, np.uint32)

    def packs(self) -> list[IndexedPack]:
        """Every pack known."""
        return list(self._packs)

    def pack(self, pack_id: bytes) -> IndexedPack | None:
        """One pack, or None when the index does not know it."""
        number = self._pack_numbers.get(pack_id)
        return None if number is None else self._packs[number]

    def deduplicated_columns(self) -> Iterator[BlockColumns]:
        """The columns of data packs that are not marked, of an index loaded with chunks."""
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

    def _order_of_preference(self, doubted: Collection[bytes]) -> NDArray[np.int64]:
        """Rows, of copies of a block the best first.

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
        self._pack_numbers[footer.pack_id] = number
        self._packs.append(
            IndexedPack(footer.pack_id, footer.kind, footer.size_bytes, first_row, count, marked)
        )
        self._block_ids += columns.block_ids
        self._codecs += columns.codecs
        self._stored_lengths.frombytes(columns.stored_lengths)
        self._raw_lengths.frombytes(columns.raw_lengths)
        self._chunk_counts.frombytes(columns.chunk_counts)
        self._thinned += columns.thinned
        ends = np.cumsum(np.frombuffer(columns.stored_lengths, "<u4"), dtype=np.uint64)
        starts = ends - np.frombuffer(columns.stored_lengths, "<u4") + np.uint64(HEADER_SIZE)
        self._offsets.frombytes(starts.tobytes())
        self._pack_of.extend([number] * count)
        return True
