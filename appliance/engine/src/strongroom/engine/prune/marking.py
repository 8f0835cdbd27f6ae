"""Marks what snapshots use: their listing pages, and the content that those refer to.

Most pages are shared by many snapshots; each is read once, however often snapshots are marked.
Where not all ids fit into memory, there is a marker for each part of them (`range_counts`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import nullcontext

import numpy as np
from numpy.typing import NDArray

from strongroom.base.errors import DamageError, ObjectMissingError, TimeShareError
from strongroom.base.progress import Progress
from strongroom.engine.content.digests import BLOCK_ID_SIZE, object_name
from strongroom.engine.prune.time_shares import TimeShares
from strongroom.engine.repository.blocks import BlockReader
from strongroom.engine.repository.client_readers import ClientReaders
from strongroom.engine.repository.index.block_rows import PlacesByClient
from strongroom.engine.repository.index.client_blocks import ClientBlocks
from strongroom.engine.repository.index.index import Index
from strongroom.engine.repository.index.live_blocks import LiveBlocks
from strongroom.engine.repository.index.selection import SomeIds
from strongroom.engine.repository.keys.owners import SHARED
from strongroom.engine.repository.listing.page import PageParts, decode_parts
from strongroom.engine.repository.object_owners import owner_of_object
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.set_aside import SetAside, is_of_one_object, problem_text
from strongroom.engine.repository.snapshots import was_stored_unreadable
from strongroom.engine.stores.at_once import read_each

_CACHE_BYTES = 8 << 20
_BLOCK_ID = np.dtype((np.void, BLOCK_ID_SIZE))
_NO_IDS = np.zeros(0, _BLOCK_ID)


class Marker:
    """Collects what snapshots use in `live`; `mark` again adds snapshots made meanwhile."""

    def __init__(
        self, repository: Repository, progress: Progress, ids: SomeIds | None = None
    ) -> None:
        """KeyRightError with a put key. ids: what is marked, None for all."""
        self._repository = repository
        self._progress = progress
        self._ids = ids
        # Of each client: a page of another client with the same id is another page.
        self._pages: set[tuple[bytes, bytes]] = set()
        self._snapshots: set[str] = set()
        # Of all parts together.
        self._seen: set[str] = set()
        self._shares = TimeShares()
        self.live = LiveBlocks()
        # Shared blocks that each client's snapshots refer to, ascending ids of 24 bytes.
        self._shared: dict[bytes, NDArray[np.void]] = {}
        # Snapshots that were set aside, and why; and the clients of which nothing may be removed.
        self.set_aside = SetAside()
        self.false_owners: set[bytes] = set()

    def of_ids(self, ids: SomeIds) -> Marker:
        """One that marks some ids; what it sets aside is set aside here too."""
        other = Marker(self._repository, self._progress, ids)
        other.set_aside, other.false_owners = self.set_aside, self.false_owners
        other._shares, other._seen = self._shares, self._seen
        return other

    def mark(
        self, names: Iterable[str], index: Index, listings: PlacesByClient | None = None
    ) -> None:
        """Mark the snapshots of these ids; `index` must have been loaded after they were listed.

        listings: where pages are, if `index` has not all blocks.

        DamageError when one of them was damaged on the disk: it does not even say whose it is. Any
        other that cannot be read, or refers to what is not there, is set aside: what it refers to
        is kept as far as it is there, and nothing of `false_owners` may be removed, in case its
        index was lost, or it is of a later version.
        """
        readers = ClientReaders(
            self._repository, index if listings is None else listings, _CACHE_BYTES
        )
        unverified = self._repository.store.unverified("snapshots")
        store, unmarked = (
            self._repository.store,
            [one for one in names if one not in self._snapshots],
        )
        for name, snapshot in read_each(store, unmarked, self._repository.snapshot):
            try:
                if isinstance(snapshot, Exception):
                    raise snapshot
            except ObjectMissingError:
                # Forgotten since it was listed.
                continue
            except Exception as error:
                if not is_of_one_object(error):
                    raise
                self._unreadable(name, error)
                continue
            owner = snapshot.owner
            fresh = [page for page in snapshot.pages if (owner, page.block_id) not in self._pages]
            ids = list(dict.fromkeys(page.block_id for page in fresh))
            blocks = index.of_client(owner)
            try:
                # Of what was verified it is known how long it takes.
                with self._shares.spending(owner) if name in unverified else nullcontext():
                    self._mark(ids, blocks, readers.of(owner), is_unverified=name in unverified)
            except Exception as error:
                if not is_of_one_object(error):
                    raise
                if isinstance(error, TimeShareError):
                    self._set_aside(name, (owner, SHARED), error)
                    continue
                self._mark_what_is_there(ids, blocks, readers.of(owner))
                # What no one verified has lost nothing that others share.
                is_lie = isinstance(error, DamageError) and name in unverified
                self._set_aside(name, (owner,) if is_lie else (owner, SHARED), error)
            else:
                self._pages.update((owner, page) for page in ids)
            self._progress.add(files=sum(page.row_count for page in fresh))
            self._done(name)

    def _unreadable(self, name: str, error: Exception) -> None:
        """Set a snapshot aside that does not decode; raises where its disk may be to blame."""
        store, key = self._repository.store, self._repository.key
        is_damage = isinstance(error, DamageError)
        if is_damage and was_stored_unreadable(store, key, name):
            # Its writer made it so, and alone would have needed what it refers to.
            self._set_aside(name, (), error)
            return
        if is_damage and object_name(store.get("snapshots", name)) != name:
            raise error
        # Perhaps of a later version: nothing goes that its client may refer to.
        self._set_aside(name, (owner_of_object(store, "snapshots", name), SHARED), error)

    def _set_aside(self, name: str, owners: Collection[bytes], error: Exception) -> None:
        kept = "; nothing of its client was removed" if owners else ""
        self.set_aside.add("snapshots", name, f"{problem_text(error)}{kept}")
        self.false_owners.update(owners)
        self._done(name)

    def _done(self, name: str) -> None:
        self._snapshots.add(name)
        self._seen.add(name)

    def shared_blocks(self, owner: bytes) -> bytes:
        """Ids of the shared blocks that a client's snapshots refer to, joined."""
        return self._shared.get(owner, _NO_IDS).tobytes()

    def _mark(
        self, pages: list[bytes], blocks: ClientBlocks, reader: BlockReader, *, is_unverified: bool
    ) -> None:
        self.live.mark(self._selected(parts_of_pages(pages)), blocks)
        for _, raw in reader.blocks(pages):
            if is_unverified:
                self._shares.require()
            ids = self.live.mark(self._selected(decode_parts(raw)), blocks)
            if ids:
                mine = self._shared.get(blocks.owner, _NO_IDS)
                here = np.frombuffer(ids, _BLOCK_ID)
                self._shared[blocks.owner] = np.unique(np.concatenate((mine, here)))

    def _mark_what_is_there(
        self, pages: list[bytes], blocks: ClientBlocks, reader: BlockReader
    ) -> None:
        self.live.mark(self._selected(parts_of_pages(pages)), blocks, only_what_is_there=True)
        for page in pages:
            try:
                parts = self._selected(decode_parts(reader.block(page)))
                self.live.mark(parts, blocks, only_what_is_there=True)
            except Exception as error:
                if not is_of_one_object(error):
                    raise

    def _selected(self, parts: PageParts) -> PageParts:
        """The references to ids that are marked here."""
        if self._ids is None:
            return parts
        ids = self._ids.has(parts.block_ids)
        used = ids[parts.places]
        numbers = np.cumsum(ids) - 1
        rows = np.frombuffer(parts.block_ids, _BLOCK_ID)[ids]
        return PageParts(rows.tobytes(), numbers[parts.places[used]], parts.slots[used])

    def __len__(self) -> int:
        """Snapshots marked, here or by those of some ids."""
        return len(self._seen)


def parts_of_pages(pages: list[bytes]) -> PageParts:
    """The blocks of pages as references: a page is the only chunk of its block."""
    zeros = np.zeros(len(pages), np.int64)
    return PageParts(b"".join(pages), np.arange(len(pages), dtype=np.int64), zeros)
