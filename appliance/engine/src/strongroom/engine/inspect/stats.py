"""Size of snapshots, how much of it is stored, and what each alone keeps from being pruned.

Content is counted by reference: a chunk that many files, or snapshots, refer to counts once. The
references of a page are read without its rows, and a page that snapshots share is read once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from strongroom.base.errors import DamageError
from strongroom.base.progress import Progress
from strongroom.engine.repository.block_columns import chunk_starts
from strongroom.engine.repository.client_readers import ClientReaders
from strongroom.engine.repository.index.client_blocks import ClientBlocks
from strongroom.engine.repository.index.index import Index
from strongroom.engine.repository.listing.page import decode_parts
from strongroom.engine.repository.packs import KIND_LISTING
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.set_aside import SetAside, is_of_one_object
from strongroom.engine.repository.snapshots import Snapshot
from strongroom.engine.stores.store import Kind

_SLOT_BITS: Final = 16
_GATHERED: Final = 1 << 20
_CACHE_BYTES: Final = 8 << 20


class ContentStats(msgspec.Struct, frozen=True):
    """Distinct chunks: how many, their raw bytes, and what they take in the store."""

    chunks: int
    raw_bytes: int
    stored_bytes: int


class SnapshotStats(msgspec.Struct, frozen=True):
    """Figures of one snapshot.

    restore_bytes: sizes of its files, as a restore writes them (holes included). content: the
    chunks it refers to. alone: the chunks that no other snapshot refers to, which forgetting it
    would free.
    """

    snapshot: Snapshot
    files: int
    directories: int
    others: int
    restore_bytes: int
    content: ContentStats
    alone: ContentStats


class RepositoryStats(msgspec.Struct, frozen=True):
    """Figures of a repository.

    restore_bytes: of all snapshots together. raw_bytes, stored_bytes: of data blocks.
    marked_bytes: of packs that a prune will remove. other_bytes: index, snapshots and the rest.
    What a client stored and no one verified yet may say anything of itself: only the objects are
    counted, as unverified_snapshots, unverified_packs and unverified_bytes (of these packs).
    """

    snapshots: int
    restore_bytes: int
    data_packs: int
    listing_packs: int
    blocks: int
    chunks: int
    raw_bytes: int
    stored_bytes: int
    listing_raw_bytes: int
    listing_stored_bytes: int
    data_pack_bytes: int
    listing_pack_bytes: int
    marked_bytes: int
    other_bytes: int
    unverified_snapshots: int
    unverified_packs: int
    unverified_bytes: int

    @property
    def deduplication_ratio(self) -> float:
        """Bytes that snapshots show for each raw byte stored once."""
        return self.restore_bytes / self.raw_bytes if self.raw_bytes else 1.0

    @property
    def compression_ratio(self) -> float:
        """Raw bytes for each byte stored."""
        return self.raw_bytes / self.stored_bytes if self.stored_bytes else 1.0

    @property
    def total_bytes(self) -> int:
        """Everything in the store."""
        packs = self.data_pack_bytes + self.listing_pack_bytes + self.unverified_bytes
        return packs + self.other_bytes


def repository_stats(repository: Repository, set_aside: SetAside) -> RepositoryStats:
    """Figures of a whole repository; a put key is enough. Raises DamageError, StoreError.

    set_aside: takes snapshots that cannot be read.
    """
    store = repository.store
    hidden, hidden_packs = store.unverified("snapshots"), store.unverified("packs")
    owner = None if repository.client is None else repository.client.client_id
    index = Index.load(store, repository.key, owner, only_verified=True)
    packs = index.packs()
    is_listing = np.array([pack.kind == KIND_LISTING for pack in packs], np.bool_)
    of_listing = is_listing[index.pack_numbers]
    raw, stored = index.raw_lengths.astype(np.int64), index.stored_lengths.astype(np.int64)
    chunk_counts = index.chunk_counts_of(np.flatnonzero(~of_listing))
    pack_bytes = np.array([pack.size_bytes for pack in packs], np.int64)
    marked = np.array([pack.marked for pack in packs], np.bool_)
    listed = repository.snapshots(set_aside)
    snapshots = [snapshot for snapshot in listed if snapshot.id not in hidden]
    unverified = [info.size_bytes for info in store.list("packs") if info.name in hidden_packs]
    kinds: tuple[Kind, ...] = ("config", "keys", "index", "snapshots", "leases", "tombstones")
    return RepositoryStats(
        snapshots=len(snapshots),
        restore_bytes=sum(snapshot.totals.content_bytes for snapshot in snapshots),
        data_packs=int((~is_listing).sum()),
        listing_packs=int(is_listing.sum()),
        blocks=int((~of_listing).sum()),
        chunks=int(chunk_counts.sum()),
        raw_bytes=int(raw[~of_listing].sum()),
        stored_bytes=int(stored[~of_listing].sum()),
        listing_raw_bytes=int(raw[of_listing].sum()),
        listing_stored_bytes=int(stored[of_listing].sum()),
        data_pack_bytes=int(pack_bytes[~is_listing].sum()),
        listing_pack_bytes=int(pack_bytes[is_listing].sum()),
        marked_bytes=int(pack_bytes[marked].sum()),
        other_bytes=sum(info.size_bytes for kind in kinds for info in store.list(kind)),
        unverified_snapshots=len(listed) - len(snapshots),
        unverified_packs=len(unverified),
        unverified_bytes=sum(unverified),
    )


def snapshot_stats(
    repository: Repository, wanted: Sequence[Snapshot], progress: Progress, set_aside: SetAside
) -> list[SnapshotStats]:
    """Figures of some snapshots (pages not needed). Raises KeyRightError, StoreError.

    Reads every listing page of the repository once for each of them. set_aside: takes those that
    cannot be read; pages of others that cannot be read count for nothing.
    """
    everything = []
    for listed in repository.snapshots(set_aside):
        with set_aside.leaving_out("snapshots", listed.id):
            everything.append(repository.snapshot(listed.id))
    counter = _ReferenceCounter(repository, progress)
    found = []
    ids = {one.id for one in wanted}
    for snapshot in everything:
        if snapshot.id in ids:
            others = [other for other in everything if other.id != snapshot.id]
            with set_aside.leaving_out("snapshots", snapshot.id):
                found.append(counter.stats(snapshot, others))
    return found


class _ReferenceCounter:
    """References as numbers: the row of the block in the index, and the slot."""

    def __init__(self, repository: Repository, progress: Progress) -> None:
        self._progress = progress
        self._index = repository.load_index(chunks=True)
        self._readers = ClientReaders(repository, self._index, _CACHE_BYTES)
        self._raw = self._index.raw_lengths.astype(np.int64)
        self._stored = self._index.stored_lengths.astype(np.int64)
        # Start and number of the chunk lengths of each block in `_lengths`.
        self._starts = np.zeros(len(self._raw), np.int64)
        self._counts = np.zeros(len(self._raw), np.int64)
        lengths = []
        total = 0
        for pack, columns in self._index.columns_by_pack():
            rows = slice(pack.first_row, pack.first_row + pack.block_count)
            starts = chunk_starts(columns.chunk_counts)
            self._starts[rows] = starts[:-1] + total
            self._counts[rows] = np.diff(starts)
            lengths.append(np.frombuffer(columns.chunk_lengths, "<u4"))
            total += columns.chunk_count
        self._lengths = np.concatenate(lengths) if lengths else np.zeros(0, np.uint32)
        self._index.release_chunks()

    def stats(self, snapshot: Snapshot, others: Sequence[Snapshot]) -> SnapshotStats:
        mine = {(snapshot.owner, page.block_id) for page in snapshot.pages}
        theirs = {(other.owner, page.block_id) for other in others for page in other.pages}
        gathered = _Gathered()
        for references in self._references(mine):
            gathered.add(references)
        held = gathered.distinct()
        left = np.ones(len(held), np.bool_)
        for references in self._references(theirs if len(held) else (), skips_damage=True):
            places = np.minimum(np.searchsorted(held, references), len(held) - 1)
            left[places[held[places] == references]] = False
            if not left.any():
                break
        totals = snapshot.totals
        return SnapshotStats(
            snapshot=snapshot,
            files=totals.files,
            directories=totals.directories,
            others=totals.others,
            restore_bytes=totals.content_bytes,
            content=self._sizes(held),
            alone=self._sizes(held[left]),
        )

    def _references(
        self, pages: Iterable[tuple[bytes, bytes]], *, skips_damage: bool = False
    ) -> Iterator[NDArray[np.int64]]:
        """The references of each page of a client, sorted and distinct. Raises DamageError.

        skips_damage: leaves out pages that cannot be read instead.
        """
        by_owner: dict[bytes, list[bytes]] = {}
        for owner, page in pages:
            by_owner.setdefault(owner, []).append(page)
        for owner, mine in by_owner.items():
            if skips_damage:
                yield from self._sound_references_of(owner, mine)
            else:
                blocks = self._index.of_client(owner)
                for _, raw in self._readers.of(owner).blocks(mine):
                    yield self._of_page(blocks, raw)

    def _sound_references_of(self, owner: bytes, pages: list[bytes]) -> Iterator[NDArray[np.int64]]:
        blocks = self._index.of_client(owner)
        left = dict.fromkeys(pages)
        try:
            for page, raw in self._readers.of(owner).blocks(pages):
                found = self._of_page(blocks, raw)
                del left[page]
                yield found
        except Exception as error:
            if not is_of_one_object(error):
                raise
            # One that cannot be read ends the reading of many at once: the others are read singly.
            for page in left:
                with SetAside().leaving_out("packs", page.hex()):
                    yield self._of_page(blocks, self._readers.of(owner).block(page))

    def _of_page(self, blocks: ClientBlocks, raw: bytes) -> NDArray[np.int64]:
        parts = decode_parts(raw)
        rows = blocks.rows_of(parts.block_ids)[parts.places]
        if len(rows) and int(rows.min()) < 0:
            raise DamageError("a snapshot refers to a block that no pack has; run check")
        if (self._counts[rows] <= parts.slots).any():
            raise DamageError("a snapshot refers to a chunk that its block has not; run check")
        self._progress.add(bytes=len(raw))
        return np.unique(rows << _SLOT_BITS | parts.slots)

    def _sizes(self, references: NDArray[np.int64]) -> ContentStats:
        rows, slots = references >> _SLOT_BITS, references & ((1 << _SLOT_BITS) - 1)
        lengths = self._lengths[self._starts[rows] + slots].astype(np.int64)
        # A chunk takes its share of its block.
        share = self._stored[rows] / np.maximum(self._raw[rows], 1)
        return ContentStats(len(references), int(lengths.sum()), int((lengths * share).sum()))


class _Gathered:
    """Distinct numbers of many arrays, merged periodically to bound duplicates."""

    def __init__(self) -> None:
        self._merged: NDArray[np.int64] = np.zeros(0, np.int64)
        self._waiting: list[NDArray[np.int64]] = []
        self._waiting_count = 0

    def add(self, numbers: NDArray[np.int64]) -> None:
        self._waiting.append(numbers)
        self._waiting_count += len(numbers)
        if self._waiting_count > max(_GATHERED, len(self._merged)):
            self.distinct()

    def distinct(self) -> NDArray[np.int64]:
        self._merged = np.unique(np.concatenate([self._merged, *self._waiting]))
        self._waiting, self._waiting_count = [], 0
        return self._merged
