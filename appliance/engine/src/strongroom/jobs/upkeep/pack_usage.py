"""How much of each pack is used, and which packs to repack.

A block may be stored in several packs (two concurrent backups, an interrupted prune). One copy
counts, the *keeper*: a whole one rather than a thinned one, and never in a pack that is marked or
missing while there is another. The other copies are unused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from strongroom.content.digests import BLOCK_ID_SIZE, BLOCK_ID_WORDS
from strongroom.errors import DamageError
from strongroom.repo.block_columns import chunk_starts, dead_flags
from strongroom.repo.index.id_table import IdTable
from strongroom.repo.index.objects import read_index_object

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from numpy.typing import NDArray

    from strongroom.repo.index.index import Index, IndexedPack
    from strongroom.repo.index.live_blocks import LiveBlocks
    from strongroom.repo.packs import PackFooter
    from strongroom.repo.repository import Repository


class Usage(NamedTuple):
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
    """The chunks of one pack: which are used, and raw bytes of each block in all and used."""

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
        ids = (
            np.frombuffer(index.block_ids(), np.uint64).reshape(-1, BLOCK_ID_WORDS)[order].tobytes()
        )
        table = IdTable(BLOCK_ID_SIZE)
        table.add_many(ids, order)
        self._is_keeper = np.zeros(len(order), np.bool_)
        self._is_keeper[table.find(ids)] = True

    def use_of(self, footer: PackFooter, first_row: int, live: LiveBlocks) -> BlockUse:
        """What is used of the pack of `footer`, whose blocks the index has from `first_row` on."""
        columns = footer.columns
        counts = np.frombuffer(columns.chunk_counts, "<u2").astype(np.int64)
        keeps = self._is_keeper[first_row : first_row + len(counts)]
        flags = live.flags(columns.block_ids, counts) & np.repeat(keeps, counts)
        flags &= ~dead_flags(columns)
        lengths = np.frombuffer(columns.chunk_lengths, "<u4").astype(np.int64)
        starts = chunk_starts(columns.chunk_counts)
        return BlockUse(flags, _sums(lengths * flags, starts), _sums(flags, starts) > 0)


def measure_usage(
    repository: Repository, index: Index, keepers: Keepers, live: LiveBlocks
) -> list[Usage]:
    """The usage of every pack of the index that is not marked.

    Reads the index objects once more, one at a time, for the lengths of chunks. ObjectMissingError
    when another prune has replaced one meanwhile: reload the index.
    """
    usages: dict[bytes, Usage] = {}
    for name in index.object_names:
        for footer in read_index_object(
            repository.store, repository.key, name, chunks=True
        ).footers:
            pack = index.pack(footer.pack_id)
            if pack is None or pack.marked or pack.pack_id in usages:
                continue
            use = keepers.use_of(footer, pack.first_row, live)
            stored = np.frombuffer(footer.columns.stored_lengths, "<u4").astype(np.int64)
            raw = np.frombuffer(footer.columns.raw_lengths, "<u4").astype(np.int64)
            used = np.where(use.in_use, stored * use.used_raw // np.maximum(raw, 1), 0)
            usages[pack.pack_id] = Usage(
                pack, int(stored.sum()), int(used.sum()), bool(use.in_use.any())
            )
    return list(usages.values())


def require_present(usages: Sequence[Usage], present: Collection[bytes]) -> None:
    """DamageError when a pack that is used is not in the store, or truncated there."""
    for usage in usages:
        if usage.in_use and usage.pack.pack_id not in present:
            raise DamageError(
                f"pack {usage.pack.pack_id.hex()} is missing or cut off and snapshots need it; "
                "nothing was removed. Run strongroom check, then strongroom repair"
            )


def choose_repacked(usages: Sequence[Usage], repack_below: float, max_unused: float) -> list[Usage]:
    """The packs to repack, the emptiest first.

    Of those used to less than `repack_below` (0 to 1), as many as needed until the unused part is
    no more than `max_unused` times the used one.
    """
    partly = [usage for usage in usages if usage.in_use and usage.unused_bytes > 0]
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
