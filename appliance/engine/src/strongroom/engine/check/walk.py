"""Walks the listing of a snapshot that somebody else made, before anybody relies on it.

A snapshot is sound when every page decodes and is where the list of pages says, every block
that a row refers to lies in a pack that is there and that its client may refer to (its own, or a
shared one), every slot is within its block, and the totals are those of the rows. Content is not
read: `vouch` has verified packs, or will.

Pages that were sound are not decoded again for the same client, as long as the packs that they
refer to are there (`SoundPages`). About 0.8 s a million rows that are new.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from strongroom.base.decoding import decodable, reading
from strongroom.base.errors import DamageError
from strongroom.engine.content.digests import BLOCK_ID_SIZE, OBJECT_NAME_SIZE
from strongroom.engine.repository.client_readers import ClientReaders
from strongroom.engine.repository.index.client_blocks import ClientBlocks
from strongroom.engine.repository.index.index import Index
from strongroom.engine.repository.listing.page import decode_page, decode_parts, page_key
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.snapshots import PageReference, Snapshot
from strongroom.engine.rows.entry_counts import EntryCounts, count_entries

SOUND_PAGES_BYTES: Final = 32 << 20
_CACHE_BYTES: Final = 8 << 20
_ENTRY_BYTES: Final = 400


class SoundPage(NamedTuple):
    """What a sound page holds; rows are named by directory and name. packs: joined ids."""

    first: tuple[bytes, bytes]
    last: tuple[bytes, bytes]
    counts: EntryCounts
    packs: bytes

    @property
    def size_bytes(self) -> int:
        """About what it takes in memory."""
        return _ENTRY_BYTES + sum(map(len, (*self.first, *self.last))) + len(self.packs)


class SoundPages:
    """Pages that were sound, by client and block id: the last ones, within a bound of memory."""

    def __init__(self, limit_bytes: int = SOUND_PAGES_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._pages: OrderedDict[tuple[bytes, bytes], SoundPage] = OrderedDict()
        self._bytes = 0

    def get(self, owner: bytes, block_id: bytes) -> SoundPage | None:
        """A page, if it is known."""
        found = self._pages.get((owner, block_id))
        if found is not None:
            self._pages.move_to_end((owner, block_id))
        return found

    def add(self, owner: bytes, block_id: bytes, page: SoundPage) -> None:
        """Remember a page; the oldest make room."""
        before = self._pages.pop((owner, block_id), None)
        self._bytes += page.size_bytes - (0 if before is None else before.size_bytes)
        self._pages[owner, block_id] = page
        while self._bytes > self._limit_bytes:
            _, oldest = self._pages.popitem(last=False)
            self._bytes -= oldest.size_bytes

    def encoded(self) -> bytes:
        """For our own file; see `decoded`."""
        return msgspec.msgpack.encode([(*key, page) for key, page in self._pages.items()])

    @classmethod
    def decoded(cls, data: bytes, limit_bytes: int = SOUND_PAGES_BYTES) -> SoundPages:
        """What `encoded` gave; nothing where that is damaged."""
        known = cls(limit_bytes)
        try:
            entries = msgspec.msgpack.decode(
                data, type=decodable(list[tuple[bytes, bytes, SoundPage]])
            )
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return known
        for owner, block_id, page in entries:
            known.add(owner, block_id, page)
        return known


class Walker:
    """Walks several snapshots with one index, which must have been loaded after they were read."""

    def __init__(
        self, repository: Repository, index: Index, known: SoundPages | None = None
    ) -> None:
        """KeyRightError with a put key."""
        self._index = index
        self._known = SoundPages() if known is None else known
        self._readers = ClientReaders(repository, index, _CACHE_BYTES)
        self._packs = index.packs()
        there = {info.name for info in repository.store.list("packs")}
        self._is_there = np.array([pack.pack_id.hex() in there for pack in self._packs], np.bool_)

    def walk(self, snapshot: Snapshot, require_time: Callable[[], None] = lambda: None) -> str:
        """What is wrong with a snapshot, which has its pages; "" if nothing.

        StoreError, MemoryLimitError, and what `require_time` raises, which is called once a page.
        """
        try:
            with reading(f"the listing of snapshot {snapshot.id}"):
                pages = self._pages_of(snapshot, require_time)
                _require_order(snapshot.pages, pages)
                _require_totals(snapshot, pages.values())
        except DamageError as error:
            return str(error)
        return ""

    def _pages_of(
        self, snapshot: Snapshot, require_time: Callable[[], None]
    ) -> dict[bytes, SoundPage]:
        """All pages by block id, in order. Raises DamageError."""
        owner = snapshot.owner
        blocks = self._index.of_client(owner)
        ids = list(dict.fromkeys(page.block_id for page in snapshot.pages))
        zeros = np.zeros(len(ids), np.int64)
        self._require_there(b"".join(ids), np.arange(len(ids), dtype=np.int64), zeros, blocks)
        pages = {}
        fresh = []
        for block_id in ids:
            known = self._known.get(owner, block_id)
            if known is not None and self._still_there(known):
                pages[block_id] = known
            else:
                fresh.append(block_id)
        for block_id, raw in self._readers.of(owner).blocks(fresh):
            require_time()
            pages[block_id] = self._examined(raw, blocks)
            self._known.add(owner, block_id, pages[block_id])
        return {block_id: pages[block_id] for block_id in ids}

    def _examined(self, raw: bytes, blocks: ClientBlocks) -> SoundPage:
        groups = decode_page(raw)
        parts = decode_parts(raw)
        rows = self._require_there(parts.block_ids, parts.places, parts.slots, blocks)
        numbers = np.unique(self._index.packs_of_rows(rows)).tolist()
        first, last = groups[0], groups[-1]
        return SoundPage(
            (first.directory, first.names.partition(b"\0")[0]),
            (last.directory, last.names.rpartition(b"\0")[2]),
            count_entries(groups),
            b"".join(self._packs[number].pack_id for number in numbers),
        )

    def _require_there(
        self,
        block_ids: bytes,
        places: NDArray[np.int64],
        slots: NDArray[np.int64],
        blocks: ClientBlocks,
    ) -> NDArray[np.int64]:
        """The rows of the blocks that references use; DamageError when any leads nowhere."""
        rows = blocks.rows_of(block_ids)
        used = np.zeros(len(rows), np.bool_)
        used[places] = True
        for place in np.flatnonzero(used & ~self._are_there(rows)).tolist():
            block_id = block_ids[place * BLOCK_ID_SIZE : (place + 1) * BLOCK_ID_SIZE]
            rows[place] = self._other_copy(block_id, blocks)
        counts = np.zeros(len(rows), np.int64)
        counts[used] = self._index.chunk_counts_of(rows[used])
        beyond = np.flatnonzero(slots >= counts[places])
        if len(beyond):
            place = int(places[beyond[0]])
            block = block_ids[place * BLOCK_ID_SIZE : (place + 1) * BLOCK_ID_SIZE].hex()
            raise DamageError(
                f"it refers to chunk {int(slots[beyond[0]])} of block {block}, which has "
                f"{int(counts[place])}"
            )
        return rows[used]

    def _are_there(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        there = rows >= 0
        if not self._is_there.all():
            there[there] = self._is_there[self._index.packs_of_rows(rows[there])]
        return there

    def _other_copy(self, block_id: bytes, blocks: ClientBlocks) -> int:
        """The row of a copy whose pack is there; DamageError when there is none."""
        rows = blocks.rows_of_copies(block_id)
        there = rows[self._are_there(rows)]
        if not len(there):
            raise DamageError(
                f"it refers to block {block_id.hex()}, which is in no pack of its client and in no "
                "shared one"
            )
        return int(there[0])

    def _still_there(self, page: SoundPage) -> bool:
        ids = page.packs
        for start in range(0, len(ids), OBJECT_NAME_SIZE):
            number = self._index.number_of_pack(ids[start : start + OBJECT_NAME_SIZE])
            if number is None or not self._is_there[number]:
                return False
        return True


def walk(repository: Repository, index: Index, snapshot: Snapshot) -> str:
    """What is wrong with one snapshot, which has its pages; "" if nothing. See `Walker`."""
    return Walker(repository, index).walk(snapshot)


def _require_order(references: Iterable[PageReference], pages: dict[bytes, SoundPage]) -> None:
    """DamageError unless each page is the one that the list names, and they are in order."""
    before: tuple[bytes, bytes] | None = None
    for number, reference in enumerate(references, 1):
        page = pages[reference.block_id]
        claimed = (reference.first_directory, reference.first_name)
        counts = (reference.row_count, reference.content_bytes)
        if page.first != claimed or counts != (sum(page.counts[:3]), page.counts.content_bytes):
            raise DamageError(f"page {number} of its listing is not the one that it is listed as")
        first = page_key(*page.first)
        if before is not None and first <= before:
            raise DamageError(f"page {number} of its listing is out of order")
        before = page_key(*page.last)


def _require_totals(snapshot: Snapshot, pages: Iterable[SoundPage]) -> None:
    """DamageError unless the totals are those of the rows."""
    counted = EntryCounts()
    for page in pages:
        counted = counted.plus(page.counts)
    totals = snapshot.totals
    stated = EntryCounts(totals.files, totals.directories, totals.others, totals.content_bytes)
    if stated != counted:
        names = ("files", "directories", "others", "bytes of files")
        named = zip(names, stated, counted, strict=True)
        wrong, true, what = next((a, b, name) for name, a, b in named if a != b)
        raise DamageError(f"it claims {wrong} {what}, but has {true}")
