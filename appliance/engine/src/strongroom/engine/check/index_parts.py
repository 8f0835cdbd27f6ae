"""The index that pages are checked with: all of it, or where memory is short a part for some pages.

A part has all blocks that its pages refer to, with every copy of each, so these pages are judged as
with the whole index. Pages are read once more before, to know what they refer to; the index is read
once for each part. Pages of the same place in several snapshots are in one part, as they have most
blocks in common.

A page is judged as a whole: one that refers to more blocks than fit is a part by itself. Shared
packs make blocks depend on others, so a repository that has some is checked at once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from typing import Final, NamedTuple

import msgspec
import numpy as np

from strongroom.base.errors import DamageError, ObjectMissingError, UnknownFormatError
from strongroom.engine.check.pages import ClientPage, PageAnswer, PageChecker
from strongroom.engine.check.verified_index import (
    NOTHING_VERIFIED,
    SoundIndex,
    VerifiedObjects,
    load_sound_index,
    load_sound_packs,
    load_sound_part,
)
from strongroom.engine.content.digests import BLOCK_ID_SIZE, CHUNK_ID_SIZE
from strongroom.engine.repository.index.index import Index
from strongroom.engine.repository.index.objects import read_index_head
from strongroom.engine.repository.index.selection import IdsAmong, PacksHolding
from strongroom.engine.repository.listing.page import page_key
from strongroom.engine.repository.repository import Repository
from strongroom.engine.stores.store import Store

# While they are loaded: a row, a table, and the ids that are selected; and the length of a chunk.
BLOCK_BYTES: Final = 300
_CHUNK_BYTES: Final = 10
_BLOCK_ID: Final = np.dtype((np.void, BLOCK_ID_SIZE))


class Part(NamedTuple):
    """Pages, and an index of at least the blocks that they refer to.

    ids: of these blocks, None for all. listings: where pages are. unreadable: pages that cannot be
    read, and why; their own blocks are among the ids.
    """

    known: SoundIndex
    ids: IdsAmong | None
    listings: Index
    pages: Collection[ClientPage]
    unreadable: Collection[tuple[ClientPage, PageAnswer]] = ()


class _Batch(msgspec.Struct):
    """Pages of a part, before its index is read."""

    pages: list[ClientPage] = []
    ids: IdsAmong = msgspec.field(default_factory=IdsAmong)
    unreadable: list[tuple[ClientPage, PageAnswer]] = []


class IndexParts:
    """The index of a repository. known: all packs, with all blocks if they are checked at once."""

    def __init__(
        self,
        repository: Repository,
        memory_bytes: int,
        verified: VerifiedObjects = NOTHING_VERIFIED,
    ) -> None:
        """memory_bytes: for blocks at once. verified: if anything, few pages are asked for."""
        self._repository = repository
        self._limit = blocks_at_once(repository.store, memory_bytes)
        if verified.index_names and not self._limit:
            # Few pages refer to few blocks.
            self._limit = max(1, memory_bytes // BLOCK_BYTES)
        if self._limit:
            self.known = load_sound_packs(repository, verified)
        else:
            self.known = load_sound_index(repository)
        if self._limit and self.known.index.has_shared:
            self._limit, self.known = 0, load_sound_index(repository)

    def of_pages(self, pages: Collection[ClientPage], renew: Callable[[], None]) -> Iterator[Part]:
        """Each part; all pages at once if all blocks fit. `renew` is called once a page.

        Who keeps one while the next is read has both in memory.
        """
        if not self._limit:
            yield Part(self.known, None, self.known.index, pages)
            return
        if not pages:
            return
        ids = b"".join({one.page.block_id for one in pages})
        selection = PacksHolding(ids)
        listings = load_sound_part(self._repository, self.known, selection).index
        reader = PageChecker(self.known, listings=listings)
        for batch in self._batches(pages, reader, renew):
            known = load_sound_part(self._repository, self.known, batch.ids)
            yield Part(known, batch.ids, listings, batch.pages, batch.unreadable)
            del known, batch

    def _batches(
        self, pages: Iterable[ClientPage], reader: PageChecker, renew: Callable[[], None]
    ) -> Iterator[_Batch]:
        batch, count = _Batch(), 0
        for one in sorted(pages, key=_place):
            renew()
            groups, answer = reader.blocks_of(self._repository, one)
            mine = np.unique(np.frombuffer(b"".join((one.page.block_id, *groups)), _BLOCK_ID))
            fresh = mine[~batch.ids.has(mine.tobytes())]
            if count and count + len(fresh) > self._limit:
                yield batch
                batch, count, fresh = _Batch(), 0, mine
            batch.ids.add(fresh.tobytes())
            count += len(fresh)
            if answer.problem:
                batch.unreadable.append((one, answer))
            else:
                batch.pages.append(one)
        if count:
            yield batch


def blocks_at_once(store: Store, memory_bytes: int) -> int:
    """How many blocks may be in memory together; 0 where all of them fit.

    By the sizes of index objects, which have at least the ids of what they describe.
    """
    sizes = {info.name: info.size_bytes for info in store.list("index")}
    if sum(sizes.values()) // BLOCK_ID_SIZE * BLOCK_BYTES <= memory_bytes:
        return 0
    blocks = chunks = 0
    for name, size_bytes in sizes.items():
        # What is wrong with it is found when it is read.
        with suppress(DamageError, ObjectMissingError, UnknownFormatError):
            first_size = min(read_index_head(store, name).first_size, size_bytes)
            blocks += first_size // BLOCK_ID_SIZE
            chunks += (size_bytes - first_size) // CHUNK_ID_SIZE
    needed_bytes = blocks * BLOCK_BYTES + chunks * _CHUNK_BYTES
    if needed_bytes <= memory_bytes:
        return 0
    return max(1, blocks * memory_bytes // needed_bytes)


def _place(one: ClientPage) -> tuple[bytes, tuple[bytes, bytes]]:
    return one.owner, page_key(one.page.first_directory, one.page.first_name)
