"""How much of each pack is used, and which packs to repack.

A client's block may be stored in several of its packs (two concurrent backups, an interrupted
prune). One copy counts, the *keeper*: a whole one rather than a thinned one, and never in a pack
that is marked or missing while there is another. The other copies are unused, and so are all of
them where a shared pack has the whole block. Chunks that shared packs have need no bytes in the
client's, but the block that lists them stays: it says which chunk a reference means.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from strongroom.base.errors import DamageError
from strongroom.engine.content.digests import BLOCK_ID_SIZE, CHUNK_ID_SIZE
from strongroom.engine.repository.block_columns import chunk_starts, dead_flags
from strongroom.engine.repository.index.block_rows import SHARED_NUMBER, IndexedPack
from strongroom.engine.repository.index.id_table import OwnedIds
from strongroom.engine.repository.index.objects import read_index_object
from strongroom.engine.repository.index.shared_chunks import SharedChunks
from strongroom.engine.repository.keys.owners import SHARED
from strongroom.engine.repository.packs import PackFooter

if TYPE_CHECKING:
    from strongroom.engine.prune.marking import Marker
    from strongroom.engine.repository.index.index import Index
    from strongroom.engine.repository.index.live_blocks import LiveBlocks
    from strongroom.engine.repository.repository import Repository


class PackUsage(NamedTuple):
    """A pack and the stored bytes of its blocks: all, and those that are used."""

    pack: IndexedPack
    block_bytes: int
    used_bytes: int
    in_use: bool

    @property
    def unused_bytes(self) -> int:
        """What repacking would free."""
        return self.block_bytes - self.used_bytes


class BlockUse(NamedTuple):
    """What is used of one pack.

    chunk_flags: chunks whose bytes are needed. used_raw: raw bytes of these in each block. in_use:
    blocks that are referred to.
    """

    chunk_flags: NDArray[np.bool_]
    used_raw: NDArray[np.int64]
    in_use: NDArray[np.bool_]


class Keepers:
    """Which copy of each block counts."""

    def __init__(self, index: Index, present: Collection[bytes]) -> None:
        """`present`: ids of the packs that are in the store and not truncated."""
        packs = index.packs()
        avoided = np.array([pack.marked or pack.pack_id not in present for pack in packs], np.bool_)
        order = np.lexsort((-index.raw_lengths.astype(np.int64), avoided[index.pack_numbers]))
        words = np.frombuffer(index.block_ids(), np.uint8).reshape(-1, BLOCK_ID_SIZE)
        ids = words[order].tobytes()
        owners = index.owners_of_rows
        table = OwnedIds()
        table.add(ids, owners[order], order)
        keepers = np.zeros(len(order), np.bool_)
        keepers[table.find_of(ids, owners[order])] = True
        shared = table.find(index.block_ids(), SHARED_NUMBER)
        covered = (owners != SHARED_NUMBER) & (shared >= 0)
        covered[covered] = ~(avoided[index.pack_numbers] | index.thinned)[shared[covered]]
        self._is_keeper = keepers & ~covered

    def use_of(
        self, footer: PackFooter, first_row: int, live: LiveBlocks, shared: SharedChunks
    ) -> BlockUse:
        """What is used of the pack of `footer`, whose blocks the index has from `first_row` on."""
        columns = footer.columns
        counts = np.frombuffer(columns.chunk_counts, "<u2").astype(np.int64)
        keeps = self._is_keeper[first_row : first_row + len(counts)]
        flags = live.flags(columns.block_ids, counts, footer.owner) & np.repeat(keeps, counts)
        starts = chunk_starts(columns.chunk_counts)
        in_use = _sums(flags, starts) > 0
        flags &= ~dead_flags(columns)
        if footer.owner != SHARED:
            flags &= ~shared.covers(columns)
        lengths = np.frombuffer(columns.chunk_lengths, "<u4").astype(np.int64)
        return BlockUse(flags, _sums(lengths * flags, starts), in_use)


def measure_usage(
    repository: Repository, index: Index, keepers: Keepers, live: LiveBlocks, shared: SharedChunks
) -> list[PackUsage]:
    """The usage of every pack of the index that is not marked; see `mark_shared`.

    Reads the index objects once more, one at a time, for the lengths of chunks. ObjectMissingError
    when another prune has replaced one meanwhile: reload the index.
    """
    usages: dict[bytes, PackUsage] = {}
    for footer in _footers(repository, index):
        pack = index.pack(footer.pack_id)
        if pack is None or pack.marked or pack.pack_id in usages:
            continue
        use = keepers.use_of(footer, pack.first_row, live, shared)
        stored = np.frombuffer(footer.columns.stored_lengths, "<u4").astype(np.int64)
        raw = np.frombuffer(footer.columns.raw_lengths, "<u4").astype(np.int64)
        # A block without bytes, which only lists its chunks, cannot be made smaller.
        partly = np.where(raw == 0, stored, stored * use.used_raw // np.maximum(raw, 1))
        used = np.where(use.in_use, partly, 0)
        usages[pack.pack_id] = PackUsage(
            pack, int(stored.sum()), int(used.sum()), bool(use.in_use.any())
        )
    return list(usages.values())


def mark_shared(
    repository: Repository, index: Index, live: LiveBlocks, shared: SharedChunks
) -> dict[bytes, int]:
    """Mark in `live` the shared chunks that the used blocks of clients leave to shared packs.

    Whatever decides about shared packs needs it. Returns the raw bytes of what each client's blocks
    have lost to them. ObjectMissingError as of `measure_usage`.
    """
    lost: dict[bytes, int] = {}
    if not len(shared):
        return lost
    for footer in _footers(repository, index):
        if footer.owner == SHARED:
            continue
        columns = footer.columns
        covered = shared.covers(columns)
        if covered.any():
            counts = np.frombuffer(columns.chunk_counts, "<u2").astype(np.int64)
            covered &= live.flags(columns.block_ids, counts, footer.owner)
            ids = np.frombuffer(columns.chunk_ids, np.uint8).reshape(-1, CHUNK_ID_SIZE)
            shared.mark(ids[covered].tobytes(), live)
            lengths = np.frombuffer(columns.chunk_lengths, "<u4").astype(np.int64)
            gone = int(lengths[covered & dead_flags(columns)].sum())
            lost[footer.owner] = lost.get(footer.owner, 0) + gone
    return lost


def _footers(repository: Repository, index: Index) -> Iterator[PackFooter]:
    for name in index.object_names:
        yield from read_index_object(repository.store, repository.key, name, chunks=True).footers


def set_lost_aside(
    usages: Sequence[PackUsage], present: Collection[bytes], index: Index, marker: Marker
) -> None:
    """Set the client of a pack aside that is used and not in the store, or truncated there.

    DamageError for a shared one: what clients have left to it is nowhere else.
    """
    for usage in usages:
        if usage.in_use and usage.pack.pack_id not in present:
            name, owner = usage.pack.pack_id.hex(), index.owners[usage.pack.owner]
            error = DamageError(
                f"pack {name} is missing or cut off and snapshots need it; nothing was removed. "
                "Run strongroom check, then strongroom repair"
            )
            if owner == SHARED:
                raise error
            marker.set_aside.add("packs", name, error)
            marker.false_owners.add(owner)


def choose_repacked(
    usages: Sequence[PackUsage],
    repack_below: float,
    max_unused: float,
    unverified: Collection[bytes],
) -> list[PackUsage]:
    """The packs to repack, the emptiest first.

    None that is unverified: the copy would be the appliance's own, and so be trusted. Of those used
    to less than `repack_below` (0 to 1), as many as needed until the unused part is no more than
    `max_unused` times the used one.
    """
    partly = [
        usage
        for usage in usages
        if usage.in_use and usage.unused_bytes > 0 and usage.pack.pack_id not in unverified
    ]
    unused_bytes = sum(usage.unused_bytes for usage in partly)
    limit_bytes = max_unused * sum(usage.used_bytes for usage in usages)
    chosen = []
    for usage in sorted(partly, key=lambda usage: usage.used_bytes / usage.block_bytes):
        if unused_bytes <= limit_bytes or usage.used_bytes >= repack_below * usage.block_bytes:
            break
        chosen.append(usage)
        unused_bytes -= usage.unused_bytes
    return chosen


def _sums(
    values: NDArray[np.int64] | NDArray[np.bool_], starts: NDArray[np.int64]
) -> NDArray[np.int64]:
    sums = np.zeros(len(values) + 1, np.int64)
    np.cumsum(values, out=sums[1:])
    return sums[starts[1:]] - sums[starts[:-1]]
