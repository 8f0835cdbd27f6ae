"""How much of each pack is used, and which packs to repack.

A client's block may be stored in several of its packs (two concurrent backups, an interrupted
prune). One copy counts, the *keeper*: a whole one rather than a thinned one, in a pack that is
marked only if no other is left, and in a missing one only if there is none at all. The other copies
are unused, and so are all of them where a shared pack has the whole block. Chunks that shared packs
have need no bytes in the client's, but the block that lists them stays: it says which chunk a
reference means.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from strongroom.base.errors import DamageError
from strongroom.engine.content.digests import BLOCK_ID_WORDS, CHUNK_ID_SIZE
from strongroom.engine.repository.block_columns import BlockColumns, chunk_starts, dead_flags
from strongroom.engine.repository.index.block_rows import SHARED_NUMBER, IndexedPack
from strongroom.engine.repository.index.objects import (
    read_index_columns,
    selected,
    split_columns,
)
from strongroom.engine.repository.index.shared_chunks import SharedChunks
from strongroom.engine.repository.keys.owners import SHARED

if TYPE_CHECKING:
    from strongroom.engine.prune.marking import Marker
    from strongroom.engine.repository.index.index import Index
    from strongroom.engine.repository.index.live_blocks import LiveBlocks
    from strongroom.engine.repository.repository import Repository

# A block used to less than this loses the bytes of its unused chunks when its pack is repacked.
THIN_BELOW: Final = 0.9
# They take about 100 bytes each while they are counted.
_CHUNKS_AT_ONCE: Final = 1 << 18


class PackUsage(NamedTuple):
    """A pack and the stored bytes of its blocks: all, used ones, and what repacking would free."""

    pack: IndexedPack
    block_bytes: int
    used_bytes: int
    freeable_bytes: int
    in_use: bool

    @property
    def unused_bytes(self) -> int:
        """Those that no snapshot needs."""
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
        numbers = index.pack_numbers
        # A prune takes the mark of a pack off that is needed; what is missing does not come back.
        avoids = np.array(
            [2 if pack.pack_id not in present else int(pack.marked) for pack in packs], np.uint8
        )
        words = np.frombuffer(index.block_ids(), np.uint64).reshape(-1, BLOCK_ID_WORDS)
        # Nearly all ids are there once. Only those that begin like another are compared.
        firsts = words[:, 0].copy()
        order = firsts.argsort()
        firsts = firsts[order]
        like_next = np.append(firsts[1:] == firsts[:-1], False) if len(order) else order > 0
        rows = order[like_next | np.roll(like_next, 1)]
        del firsts, order, like_next
        avoided, words = avoids[numbers[rows]], words[rows]
        owners = np.array([pack.owner for pack in packs], np.int64)[numbers[rows]]
        raw_lengths = index.raw_lengths[rows].astype(np.int64)
        # Of a block the shared copies first, then those of each owner, the best one first.
        best = np.lexsort((rows, -raw_lengths, avoided, owners, *words.T))
        rows, owners, avoided, words = rows[best], owners[best], avoided[best], words[best]
        new_block = _differs(words).any(axis=1)
        first_rows = new_block | _differs(owners)
        # Where it is whole and stays, the best shared copy serves all.
        serves_all = (owners == SHARED_NUMBER) & (avoided == 0) & ~index.thinned[rows]
        covered = serves_all[new_block][np.cumsum(new_block) - 1] & (owners != SHARED_NUMBER)
        # The last one is that of row -1, for blocks that are not in the index.
        self._is_keeper = np.ones(len(numbers) + 1, np.bool_)
        self._is_keeper[-1] = False
        self._is_keeper[rows] = first_rows & ~covered

    def use_of(
        self,
        columns: BlockColumns,
        owner: bytes,
        rows: slice | NDArray[np.int64],
        live: LiveBlocks,
        shared: SharedChunks,
    ) -> BlockUse:
        """What is used of blocks of an owner's packs; rows: theirs in the index, -1 for none."""
        counts = np.frombuffer(columns.chunk_counts, "<u2").astype(np.int64)
        keeps = np.repeat(self._is_keeper[rows], counts)
        flags = live.flags(columns.block_ids, counts, owner) & keeps
        starts = chunk_starts(columns.chunk_counts)
        in_use = _sums(flags, starts) > 0
        flags &= ~dead_flags(columns)
        if owner != SHARED:
            flags &= ~shared.covers(columns)
        lengths = np.frombuffer(columns.chunk_lengths, "<u4").astype(np.int64)
        return BlockUse(flags, _sums(lengths * flags, starts), in_use)


def measure_usage(
    repository: Repository, index: Index, keepers: Keepers, live: LiveBlocks, shared: SharedChunks
) -> list[PackUsage]:
    """The usage of every pack of the index, marked ones too; see `mark_shared`.

    Of an index of some blocks, that of these. Reads the index objects once more, one at a time, for
    lengths of chunks. ObjectMissingError when another prune has replaced one meanwhile: reload the
    index.
    """
    usages: dict[bytes, PackUsage] = {}
    owners = index.owners
    for part in _parts(repository, index):
        # As the index has it: another client's object may describe the pack, too.
        packs = {
            number: pack
            for number, (pack_id, count) in enumerate(
                zip(part.pack_ids, part.block_counts, strict=True)
            )
            if (pack := index.pack(pack_id)) is not None
            and (pack.block_count, owners[pack.owner]) == (count, part.owner)
            and pack_id not in usages
        }
        usages.update(_usages_of(part, packs, keepers, live, shared))
    return list(usages.values())


def _usages_of(
    part: _Part,
    packs: Mapping[int, IndexedPack],
    keepers: Keepers,
    live: LiveBlocks,
    shared: SharedChunks,
) -> Iterator[tuple[bytes, PackUsage]]:
    counts = np.array(part.block_counts, np.int64)
    ends = np.cumsum(counts)
    rows = np.full(int(counts.sum()), -1, np.int64)
    for number, pack in packs.items():
        end = int(ends[number])
        rows[end - pack.block_count : end] = np.arange(pack.block_count) + pack.first_row
    use = keepers.use_of(part.columns, part.owner, rows, live, shared)
    stored = np.frombuffer(part.columns.stored_lengths, "<u4").astype(np.int64)
    raw = np.frombuffer(part.columns.raw_lengths, "<u4").astype(np.int64)
    # A block without bytes, which only lists its chunks, cannot be made smaller.
    partly = np.where(raw == 0, stored, stored * use.used_raw // np.maximum(raw, 1))
    left = np.where(use.used_raw < THIN_BELOW * raw, partly, stored)
    starts = np.concatenate((np.zeros(1, np.int64), ends))
    of_packs = [
        _sums(values, starts).tolist()
        for values in (
            stored,
            np.where(use.in_use, partly, 0),
            stored - np.where(use.in_use, left, 0),
            use.in_use,
        )
    ]
    for number, pack in packs.items():
        block_bytes, used_bytes, freeable_bytes, in_use = (values[number] for values in of_packs)
        yield pack.pack_id, PackUsage(pack, block_bytes, used_bytes, freeable_bytes, in_use > 0)


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
    for part in _parts(repository, index):
        if part.owner == SHARED:
            continue
        columns = part.columns
        covered = shared.covers(columns)
        if covered.any():
            counts = np.frombuffer(columns.chunk_counts, "<u2").astype(np.int64)
            covered &= live.flags(columns.block_ids, counts, part.owner)
            ids = np.frombuffer(columns.chunk_ids, np.uint8).reshape(-1, CHUNK_ID_SIZE)
            shared.mark(ids[covered].tobytes(), live)
            lengths = np.frombuffer(columns.chunk_lengths, "<u4").astype(np.int64)
            gone = int(lengths[covered & dead_flags(columns)].sum())
            lost[part.owner] = lost.get(part.owner, 0) + gone
    return lost


class _Part(NamedTuple):
    """Some packs of an index object, and the columns of all their blocks."""

    owner: bytes
    pack_ids: list[bytes]
    block_counts: list[int]
    columns: BlockColumns


def _parts(repository: Repository, index: Index) -> Iterator[_Part]:
    """All packs of the index objects: many at once, for a pack of large chunks has few rows."""
    for name in index.object_names:
        found = read_index_columns(repository.store, repository.key, name, chunks=True)
        if index.selection is not None:
            found = selected(found, index.selection)
        counts, columns = found.packs.block_counts, found.columns
        starts = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)))
        first_chunks = chunk_starts(columns.chunk_counts)[starts[:-1]]
        cuts = np.flatnonzero(np.diff(first_chunks // _CHUNKS_AT_ONCE)) + 1
        ranges = [slice(*ends) for ends in pairwise([0, *cuts.tolist(), len(counts)])]
        parts = split_columns(columns, [sum(counts[one]) for one in ranges])
        for one, part in zip(ranges, parts, strict=True):
            yield _Part(found.owner, found.packs.pack_ids[one], counts[one], part)


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
    `max_unused` times the used one. What repacking would not free does not count: else such a pack
    would be copied by every prune.
    """
    partly = [
        usage
        for usage in usages
        if usage.in_use and usage.freeable_bytes > 0 and usage.pack.pack_id not in unverified
    ]
    unused_bytes = sum(usage.freeable_bytes for usage in partly)
    limit_bytes = max_unused * sum(usage.used_bytes for usage in usages)
    chosen = []
    for usage in sorted(partly, key=lambda usage: usage.used_bytes / usage.block_bytes):
        if unused_bytes <= limit_bytes or usage.used_bytes >= repack_below * usage.block_bytes:
            break
        chosen.append(usage)
        unused_bytes -= usage.freeable_bytes
    return chosen


def _differs(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Which are not equal to the one before; the first is not."""
    differs = np.ones(values.shape, np.bool_)
    np.not_equal(values[1:], values[:-1], out=differs[1:])
    return differs


def _sums(
    values: NDArray[np.int64] | NDArray[np.bool_], starts: NDArray[np.int64]
) -> NDArray[np.int64]:
    sums = np.zeros(len(values) + 1, np.int64)
    np.cumsum(values, out=sums[1:])
    return sums[starts[1:]] - sums[starts[:-1]]
