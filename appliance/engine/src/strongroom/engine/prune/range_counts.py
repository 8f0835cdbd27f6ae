"""What is used of blocks, counted for all of them at once or, where memory is short, part by part.

A block takes about 300 bytes while it is counted. Where all of them would take more than a job
may, ids are divided into equal parts; for each the index objects and the pages are read again, and
only what concerns its ids is kept. All copies of a block are in one part, so what is decided is the
same. Beside it a job takes about 1 kB a pack, and what reading one index object takes.

Shared packs make what is used of one block depend on others, so a repository that has some is
counted at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final

import msgspec

from strongroom.base import clock
from strongroom.base.errors import DamageError, UnknownFormatError
from strongroom.engine.content.ciphers import KEY_SIZE
from strongroom.engine.content.digests import BLOCK_ID_SIZE
from strongroom.engine.prune.marking import Marker
from strongroom.engine.prune.pack_usage import Keepers, PackUsage, mark_shared, measure_usage
from strongroom.engine.repository.index.block_rows import PlacesByClient
from strongroom.engine.repository.index.index import Index, IndexState, unverified_packs
from strongroom.engine.repository.index.objects import read_index_head
from strongroom.engine.repository.index.selection import (
    IdRange,
    IdsAmong,
    ListingPacks,
    PacksAmong,
    SomeIds,
)
from strongroom.engine.repository.index.shared_chunks import SharedChunks
from strongroom.engine.repository.keys.owners import SHARED
from strongroom.engine.repository.repository import Repository

BLOCK_BYTES: Final = 300


class Counts(msgspec.Struct, frozen=True):
    """All that decides about some blocks. lost: see `mark_shared`."""

    index: Index
    marker: Marker
    keepers: Keepers
    shared: SharedChunks
    lost: dict[bytes, int]

    def usages(self, repository: Repository) -> list[PackUsage]:
        """That of every pack, marked ones too. ObjectMissingError as of `measure_usage`."""
        return measure_usage(repository, self.index, self.keepers, self.marker.live, self.shared)


class Counting:
    """Counts a repository as it is at one moment. ObjectMissingError of anything: begin again."""

    def __init__(self, repository: Repository, marker: Marker, memory_bytes: int) -> None:
        """Snapshots, and then the index, are listed now."""
        store, key = repository.store, repository.key
        self._repository = repository
        self._marker = marker
        self._blocks_at_once = max(1, memory_bytes // BLOCK_BYTES)
        self.names = [info.name for info in store.list("snapshots")]
        self.state = IndexState.read(store, key)
        # An unverified copy is no reason to remove another one.
        self.unverified = unverified_packs(store)
        self._parts = self._divided()
        if self.state.unverified and not self.is_at_once:
            # Else a client could name packs first, and store one whenever a part is read.
            there = frozenset(info.name for info in store.list("packs"))
            self.state = self.state._replace(there=there)
        self._listings: PlacesByClient | None = None

    @property
    def is_at_once(self) -> bool:
        """Whether all blocks are counted together."""
        return self.part_count == 1

    @property
    def part_count(self) -> int:
        """In how many parts blocks are counted."""
        return len(self._parts)

    def all_parts(self, sizes: Mapping[bytes, int]) -> Iterator[Counts]:
        """Each part, one after the other. sizes: of packs that are there.

        Who keeps one while the next is read has both in memory.
        """
        for ids in self._parts:
            yield self._count(sizes, ids)

    def of_packs(self, pack_ids: Sequence[bytes], sizes: Mapping[bytes, int]) -> Counts:
        """What decides about all blocks of some packs, of which their index has all rows."""
        index = self._load(PacksAmong(frozenset(pack_ids)))
        return self._count(sizes, IdsAmong(index.block_ids()))

    def packs(self) -> Index:
        """The index with its blocks if they are counted at once, else without any."""
        return self._load(None if self.is_at_once else PacksAmong())

    def marked(self, whole: Index) -> Iterator[tuple[Index, Marker]]:
        """The index, and what of it is used, of each part. whole: of `packs`, or loaded before."""
        for ids in self._parts:
            if ids is None and whole.selection is None:
                yield whole, self._marked(whole, None)
            else:
                index = self._load(ids)
                marker = self._marked(index, ids)
                yield index, marker
                # Before the next is read.
                del index, marker

    def _count(self, sizes: Mapping[bytes, int], ids: SomeIds | None) -> Counts:
        store, key = self._repository.store, self._repository.key
        index = self._load(ids)
        marker = self._marked(index, ids)
        # A power failure may have truncated a pack; its intact copies elsewhere must stay.
        cut_off = {
            pack.pack_id
            for pack in index.packs()
            if sizes.get(pack.pack_id, pack.size_bytes) != pack.size_bytes
        }
        keepers = Keepers(index, sizes.keys() - cut_off - self.unverified)
        shared = SharedChunks.load(store, key, index, cut_off | self.unverified)
        lost = mark_shared(self._repository, index, marker.live, shared)
        return Counts(index, marker, keepers, shared, lost)

    def _marked(self, index: Index, ids: SomeIds | None) -> Marker:
        marker = self._marker
        if ids is not None:
            marker = marker.of_ids(ids)
            if self._listings is None:
                self._listings = self._load(ListingPacks())
        marker.mark(self.names, index, self._listings)
        return marker

    def _load(self, selection: SomeIds | PacksAmong | ListingPacks | None) -> Index:
        store, key = self._repository.store, self._repository.key
        return Index.of_state(store, key, self.state, selection=selection)

    def _divided(self) -> list[SomeIds | None]:
        # A block takes its id and that of a chunk, at least.
        most = sum(self.state.sizes.values()) // (2 * BLOCK_ID_SIZE)
        if most <= self._blocks_at_once:
            return [None]
        most = 0
        for name, size_bytes in self.state.sizes.items():
            with suppress(DamageError, UnknownFormatError):
                head = read_index_head(self._repository.store, name)
                if head.owner == SHARED:
                    return [None]
                # Its writer may claim any size, and parts take time.
                most += min(head.first_size, size_bytes) // BLOCK_ID_SIZE
        count = -(-most // self._blocks_at_once)
        secret = clock.random_bytes(KEY_SIZE)
        return [IdRange(secret, number, count) for number in range(count)] if count > 1 else [None]


def batches(usages: Iterable[PackUsage], memory_bytes: int) -> Iterator[list[PackUsage]]:
    """Packs whose blocks can be counted together."""
    batch: list[PackUsage] = []
    blocks = 0
    for usage in usages:
        blocks += usage.pack.block_count
        if batch and blocks * BLOCK_BYTES > memory_bytes:
            yield batch
            batch, blocks = [], usage.pack.block_count
        batch.append(usage)
    if batch:
        yield batch


def added(one: PackUsage, other: PackUsage) -> PackUsage:
    """The usage of a pack in two parts."""
    return PackUsage(
        one.pack._replace(block_count=one.pack.block_count + other.pack.block_count),
        one.block_bytes + other.block_bytes,
        one.used_bytes + other.used_bytes,
        one.freeable_bytes + other.freeable_bytes,
        one.in_use or other.in_use,
    )
