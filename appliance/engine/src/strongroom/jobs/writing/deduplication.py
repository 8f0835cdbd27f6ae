"""Decides which chunks of a backup are new.

The table of everything stored is large, and an unchanged backup never needs it: it is loaded at
the first claim.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from strongroom.content.digests import CHUNK_ID_SIZE, block_id, ids_and_lengths

if TYPE_CHECKING:
    from collections.abc import Callable

    from strongroom.repo.index.chunk_table import ChunkTable
    from strongroom.repo.keys.owners import OwnerKeys


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
