"""Which offered chunks enough clients have, and the pack that each is taken from.

Counted are chunks that snapshots use, in packs that were verified, once for each client. The counts
come from the first 8 bytes of ids, written to files by their leading bits, so that memory depends
on one client's chunks and on what is shared, not on how much all clients have together; whole ids
are compared afterwards, so that an id made to begin like another is not counted with it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Collection, Iterator, Mapping
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from strongroom.engine.content.digests import CHUNK_ID_SIZE
from strongroom.engine.repository.block_columns import OFFERED, chunk_starts, dead_flags
from strongroom.engine.repository.index.index import Index
from strongroom.engine.repository.index.live_blocks import LiveBlocks
from strongroom.engine.repository.index.objects import read_index_head, read_index_object
from strongroom.engine.repository.index.shared_chunks import SharedChunks
from strongroom.engine.repository.packs import KIND_DATA, PackFooter
from strongroom.engine.repository.repository import Repository

_PARTITION_BITS: Final = 6
_SLOT_BITS: Final = 16
_NOWHERE: Final = np.iinfo(np.int64).max


class Chosen(NamedTuple):
    """Chunks to be shared, ascending by the first 8 bytes of their ids.

    ids: 24 bytes each. packs: the place of the pack of each in `order`. blocks: number of the block
    in the pack and, in the lowest 16 bits, the slot.
    """

    order: tuple[bytes, ...]
    prefixes: NDArray[np.uint64]
    ids: NDArray[np.uint8]
    packs: NDArray[np.int64]
    blocks: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.prefixes)

    def find(self, chunk_ids: NDArray[np.uint8]) -> NDArray[np.int64]:
        """The place of each of n rows of 24 bytes, -1 for those that are not among them."""
        return _find(self.prefixes, self.ids, chunk_ids)


class Offers:
    """What clients offer, of a repository as one index shows it."""

    def __init__(
        self,
        repository: Repository,
        index: Index,
        live: LiveBlocks,
        shared: SharedChunks,
        stored_ns: Mapping[bytes, int],
        clients: Collection[bytes] | None,
    ) -> None:
        """`index`: of offered blocks. `live`: what snapshots use of them.

        shared: what is shared already. stored_ns: when each pack that counts was stored. clients:
        those that count, None for all.
        """
        self._repository = repository
        self._index = index
        self._live = live
        self._shared = shared
        self._stored_ns = stored_ns
        self._objects = self._by_owner(clients)
        self.chunks = 0

    def choose(self, least_clients: int) -> Chosen:
        """The chunks that at least so many clients have. Raises StoreError, DamageError."""
        if not len(self._index):
            nowhere = np.zeros(0, np.int64)
            return Chosen((), _EMPTY, _NO_IDS, nowhere, nowhere)
        order = tuple(sorted(self._stored_ns, key=lambda one: (self._stored_ns[one], one)))
        prefixes = self._frequent(least_clients)
        chosen = self._sources(order, prefixes)
        if least_clients > 1:
            counts = self._counts(chosen)
            chosen = _take(chosen, counts >= least_clients)
        return chosen

    def _by_owner(self, clients: Collection[bytes] | None) -> dict[bytes, list[str]]:
        objects: dict[bytes, list[str]] = {}
        # What no one has verified says nothing about packs, verified ones either.
        unverified = self._repository.store.unverified("index")
        for name in self._index.object_names:
            if name in unverified:
                continue
            owner = read_index_head(self._repository.store, name).owner
            if any(owner) and (clients is None or owner in clients):
                objects.setdefault(owner, []).append(name)
        return objects

    def _frequent(self, least_clients: int) -> NDArray[np.uint64]:
        """The first 8 bytes of ids that so many clients have, ascending."""
        with tempfile.TemporaryDirectory(prefix="strongroom-share-") as folder:
            files = [
                open(os.path.join(folder, str(number)), "w+b")  # noqa: SIM115 - closed below
                for number in range(1 << _PARTITION_BITS)
            ]
            try:
                for owner in self._objects:
                    mine = np.unique(np.concatenate([_EMPTY, *self._prefixes_of(owner)]))
                    self.chunks += len(mine)
                    shift = np.uint64(64 - _PARTITION_BITS)
                    ends = np.searchsorted(mine >> shift, np.arange(len(files)), side="right")
                    for file, part in zip(files, np.split(mine, ends)[:-1], strict=True):
                        file.write(part.tobytes())
                found = [_EMPTY]
                for file in files:
                    file.seek(0)
                    values, counts = np.unique(
                        np.frombuffer(file.read(), np.uint64), return_counts=True
                    )
                    found.append(values[counts >= least_clients])
            finally:
                for file in files:
                    file.close()
        return np.concatenate(found)

    def _prefixes_of(self, owner: bytes) -> Iterator[NDArray[np.uint64]]:
        for footer in self._footers(owner):
            yield _prefixes(self._offered(footer)[0])

    def _sources(self, order: tuple[bytes, ...], prefixes: NDArray[np.uint64]) -> Chosen:
        """For each chunk its place in the pack that was stored first."""
        rank = {pack_id: number for number, pack_id in enumerate(order)}
        ids = np.zeros((len(prefixes), CHUNK_ID_SIZE), np.uint8)
        packs = np.full(len(prefixes), _NOWHERE, np.int64)
        blocks = np.zeros(len(prefixes), np.int64)
        for owner in self._objects:
            for footer in self._footers(owner):
                here, places = self._offered(footer)
                at = np.searchsorted(prefixes, _prefixes(here))
                at = np.minimum(at, len(prefixes) - 1) if len(prefixes) else at[:0]
                number = rank[footer.pack_id]
                better = np.flatnonzero(
                    (prefixes[at] == _prefixes(here)) & (packs[at] > number)
                    if len(prefixes)
                    else np.zeros(0, np.bool_)
                )
                at = at[better]
                ids[at], packs[at], blocks[at] = here[better], number, places[better]
        return Chosen(order, prefixes, ids, packs, blocks)

    def _counts(self, chosen: Chosen) -> NDArray[np.int64]:
        """How many clients have each chunk, by whole ids."""
        counts = np.zeros(len(chosen), np.int64)
        for owner in self._objects:
            has = np.zeros(len(chosen), np.bool_)
            for footer in self._footers(owner):
                found = chosen.find(self._offered(footer)[0])
                has[found[found >= 0]] = True
            counts += has
        return counts

    def _footers(self, owner: bytes) -> Iterator[PackFooter]:
        store, key = self._repository.store, self._repository.key
        for name in self._objects[owner]:
            for footer in read_index_object(store, key, name, chunks=True).footers:
                pack = self._index.pack(footer.pack_id)
                if footer.kind != KIND_DATA or pack is None or pack.marked:
                    continue
                if footer.pack_id in self._stored_ns:
                    yield footer

    def _offered(self, footer: PackFooter) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Ids and places of the chunks of a pack that are offered, used and not shared yet."""
        columns = footer.columns
        counts = np.frombuffer(columns.chunk_counts, "<u2").astype(np.int64)
        offered = (np.frombuffer(columns.flags, np.uint8) & OFFERED).astype(np.bool_)
        wanted = np.repeat(offered, counts)
        if not wanted.any():
            return _NO_IDS, np.zeros(0, np.int64)
        wanted &= ~dead_flags(columns)
        wanted &= self._live.flags(columns.block_ids, counts, footer.owner)
        wanted &= ~self._shared.covers(columns)
        starts = chunk_starts(columns.chunk_counts)
        numbers = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
        slots = np.arange(len(wanted), dtype=np.int64) - starts[numbers]
        ids = np.frombuffer(columns.chunk_ids, np.uint8).reshape(-1, CHUNK_ID_SIZE)[wanted]
        return ids, (numbers << _SLOT_BITS | slots)[wanted]


_EMPTY: Final = np.zeros(0, np.uint64)
_NO_IDS: Final = np.zeros((0, CHUNK_ID_SIZE), np.uint8)


def _prefixes(ids: NDArray[np.uint8]) -> NDArray[np.uint64]:
    return np.ascontiguousarray(ids[:, :8]).view(np.uint64).reshape(-1)


def _take(chosen: Chosen, kept: NDArray[np.bool_]) -> Chosen:
    return Chosen(
        chosen.order,
        chosen.prefixes[kept],
        chosen.ids[kept],
        chosen.packs[kept],
        chosen.blocks[kept],
    )


def _find(
    prefixes: NDArray[np.uint64], ids: NDArray[np.uint8], wanted: NDArray[np.uint8]
) -> NDArray[np.int64]:
    if not len(prefixes):
        return np.full(len(wanted), -1, np.int64)
    at = np.minimum(np.searchsorted(prefixes, _prefixes(wanted)), len(prefixes) - 1)
    same = (ids[at] == wanted).all(axis=1)
    return np.where(same, at, -1)
