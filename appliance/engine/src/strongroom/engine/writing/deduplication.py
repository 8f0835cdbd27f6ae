"""Decides which chunks of a backup are new.

The table of everything stored is large, and an unchanged backup never needs it: it is loaded at
the first claim.
"""

from __future__ import annotations

import contextlib
from array import array
from collections.abc import Callable

import msgspec
import numpy as np

from strongroom.base.errors import DamageError, UnknownFormatError
from strongroom.engine.content.digests import (
    CHUNK_ID_SIZE,
    block_id,
    ids_and_lengths,
    is_object_name,
)
from strongroom.engine.repository.index.chunk_table import ChunkTable
from strongroom.engine.repository.index.kept_index import KeptIndex
from strongroom.engine.repository.index.kept_loading import SIZE_UNASKED
from strongroom.engine.repository.index.pack_ids import PackIds
from strongroom.engine.repository.kept_notes import KeptNotes
from strongroom.engine.repository.keys.owners import SHARED, OwnerKeys
from strongroom.engine.repository.packs import KIND_DATA, PackFooter, read_footer, read_owner
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.tombstones import read_tombstones
from strongroom.engine.stores.at_once import read_each
from strongroom.engine.stores.capabilities import NamesPacks
from strongroom.engine.stores.store import Store


class ChunkGroup(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Chunks that will share one block: n * 24 bytes of ids, n lengths as u32.

    block_id: that of the block, if all of them are new. offered: the ids are under the common keys,
    and the block may be shared.
    """

    ids: bytes
    lengths: bytes
    block_id: bytes
    offered: bool = False


class GroupAnswer(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The new chunks of a group.

    new: positions of the chunks that the claimant stores in the block `block_id` (b"": none is
    new). known: (position, block id, slot) of the others.
    """

    block_id: bytes
    new: list[int]
    known: list[tuple[int, bytes, int]]


class Deduplication:
    """For one thread. `new_chunks` and `new_bytes` count what was new, before compression."""

    def __init__(self, load: Callable[[], ChunkTable], keys: OwnerKeys) -> None:
        """keys: of the client that is written for."""
        self._load = load
        self._keys = keys
        self._table: ChunkTable | None = None
        self.new_chunks = 0
        self.new_bytes = 0

    def claim(self, group: ChunkGroup) -> GroupAnswer:
        """Answer a claim; the new chunks belong to the claimant.

        Raises DamageError, StoreError when the table is loaded.
        """
        ids, lengths, block = group.ids, group.lengths, group.block_id
        if self._table is None:
            self._table = self._load()
        new = list(range(len(lengths) // 4))
        if self._table.add_if_new(block, ids):
            self._count(lengths)
            return GroupAnswer(block, new, [])
        places = self._table.claim(ids)
        known = [(position, *reference) for position, reference in places.items()]
        if places:
            new = [place for place in new if place not in places]
        if not new:
            return GroupAnswer(b"", new, known)
        if known:
            size = CHUNK_ID_SIZE
            ids = b"".join([ids[size * place : size * (place + 1)] for place in new])
            lengths = b"".join([lengths[4 * place : 4 * place + 4] for place in new])
            block_key = self._keys.content(offered=group.offered).block_key
            block = block_id(block_key, ids_and_lengths(ids, lengths))
        self._table.add(block, ids)
        self._count(lengths)
        return GroupAnswer(block, new, known)

    def release(self) -> None:
        """Free the table: no more claims come."""
        self._table = None

    def _count(self, lengths: bytes) -> None:
        self.new_chunks += len(lengths) // 4
        self.new_bytes += sum(memoryview(lengths).cast("I"))


# What a new backup may refer to: packs in the index, and packs of interrupted jobs.
#
# Packs marked by a prune do not count, nor do indexed packs that are missing or truncated. Create
# it after the job's lease: packs marked later are kept until that lease ends.


class StoredChunks:
    """`blocks`: what the client may refer to. `orphans`: its packs that no index object names yet.

    The job that uses orphans writes them into its index.
    """

    def __init__(self, repository: Repository) -> None:
        """Raises DamageError, StoreError."""
        self._repository = repository
        # What snapshots of the client may refer to.
        self.blocks = KeptIndex(
            repository.store, repository.key, repository.writer.client_id, repository.cache_folder
        )
        self.orphans = self._find_orphans()
        for footer in self.orphans:
            self.blocks.add(footer)

    def load_table(self) -> ChunkTable:
        """The chunks of data packs. Raises DamageError, StoreError."""
        self.blocks.load_chunks()
        table = ChunkTable(self.blocks)
        for footer in self.orphans:
            if footer.kind == KIND_DATA:
                table.add_columns([footer.columns])
        return table

    def _find_orphans(self) -> list[PackFooter]:
        """Packs that a job stored but never indexed, because it was interrupted or still runs.

        Packs marked by a prune are not included, and damaged ones are left to `check`.
        """
        store, key = self._repository.store, self._repository.key
        doomed = {
            pack_id for tombstone in read_tombstones(store, key) for pack_id in tombstone.pack_ids
        }
        footers = []
        present = _packs_there(store)
        # After a power failure an index written early may name packs that were lost or truncated.
        # Their content is stored again: nothing refers to a pack that is missing or differs from
        # what was written.
        is_named = self.blocks.require_present(present)
        ids = present.chosen(~is_named)
        notes = KeptNotes(self._repository.cache_folder, self._repository.writer, "packs")
        foreign: dict[bytes, bytes] = {}
        names = [one.hex() for one in sorted(ids) if one not in doomed and one not in notes]
        owners = read_each(store, names, lambda name: read_owner(store, bytes.fromhex(name)))
        for name, owner in owners:
            # Those of other clients are none of ours, and shared ones are indexed at once.
            with contextlib.suppress(DamageError, UnknownFormatError):
                if isinstance(owner, Exception):
                    raise owner
                if owner == self._repository.writer.client_id:
                    footers.append(read_footer(store, key, bytes.fromhex(name)))
                elif owner != SHARED:
                    foreign[bytes.fromhex(name)] = b""
        notes.add(foreign, frozenset(ids))
        return footers


def _packs_there(store: Store) -> PackIds:
    """All packs, with their sizes where these come with the names."""
    naming = store.capability(NamesPacks)
    if naming is not None:
        return PackIds(naming.pack_ids(), SIZE_UNASKED)
    present, sizes = bytearray(), array("q")
    for info in store.list("packs"):
        # Foreign files are not packs.
        if is_object_name(info.name):
            present += bytes.fromhex(info.name)
            sizes.append(info.size_bytes)
    return PackIds(bytes(present), np.frombuffer(sizes, np.int64))
