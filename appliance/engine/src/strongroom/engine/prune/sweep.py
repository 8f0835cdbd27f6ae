"""The second phase of prune: removes marked packs once no one can need them.

Why this is safe beside writers and other prunes:

- A tombstone is swept only when every existing lease of its client, or of the appliance, names it;
  one of shared packs when every lease does. A client's lease ends within seven days, so it bars no
  older tombstone, which it knew when it began. The holder of such a lease began after the marking
  and does not refer to the packs; writers that began before have committed or failed.
- After that, and not before, snapshots are listed, then tombstones, index and packs read. A marked
  pack is removed only if each of its chunks that a snapshot uses is also in a present pack that
  no prune has marked. Two prunes that mark each other's copy see both marks and keep both.
- A pack that is in use again loses its mark and stays.
- The index drops the packs before they are deleted, the tombstone is deleted last: after a crash
  the next prune finds it and continues.

One prune sweeps at a time (it holds the lease SWEEP_LEASE); safety does not depend on that.
"""

from __future__ import annotations

import socket
from collections.abc import Collection, Sequence
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.base.errors import LeaseError
from strongroom.base.progress import Progress
from strongroom.engine.content.digests import BLOCK_ID_SIZE
from strongroom.engine.prune.index_rewrite import rewrite_index
from strongroom.engine.prune.marking import Marker
from strongroom.engine.prune.pack_usage import mark_shared
from strongroom.engine.prune.prune_options import Holdup, PruneOptions
from strongroom.engine.prune.range_counts import Counting
from strongroom.engine.repository.block_columns import chunk_starts, dead_flags
from strongroom.engine.repository.index.block_rows import SHARED_NUMBER, IndexedPack
from strongroom.engine.repository.index.id_table import OwnedIds
from strongroom.engine.repository.index.index import Index, again_if_replaced, unverified_packs
from strongroom.engine.repository.index.live_blocks import LiveBlocks
from strongroom.engine.repository.index.shared_chunks import SharedChunks
from strongroom.engine.repository.keys.owners import SHARED
from strongroom.engine.repository.keys.roles import required_appliance_key
from strongroom.engine.repository.leases import (
    APPLIANCE,
    MOST_AGE_SECONDS,
    Holder,
    Lease,
    ListedLease,
    has_ended,
    list_leases,
)
from strongroom.engine.repository.packs import read_footer
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.tombstones import Tombstone, read_tombstones
from strongroom.engine.stores.at_once import delete_each
from strongroom.engine.stores.capabilities import KeepsJudgements

SWEEP_LEASE: Final = "5" * 32
# Grace for readers without a lease: how long marked packs stay while others hold leases.
GRACE_BESIDE_OTHERS_SECONDS: Final = 3600.0
# What is older was there when any client's lease began; clocks may differ a little.
_OLD_SECONDS: Final = MOST_AGE_SECONDS + 3600.0


class Swept(msgspec.Struct):
    """Results of a sweep."""

    packs: int = 0
    bytes: int = 0
    kept_after_all: int = 0
    waiting_packs: int = 0
    waiting_for: tuple[str, ...] = ()
    holdups: tuple[Holdup, ...] = ()
    temporary_files: int = 0

    def count(self, later: Swept) -> None:
        """Add the results of a later sweep of the same prune."""
        self.packs += later.packs
        self.bytes += later.bytes
        self.kept_after_all += later.kept_after_all
        self.temporary_files += later.temporary_files
        self.waiting_packs = later.waiting_packs
        self.waiting_for = later.waiting_for
        self.holdups = later.holdups


def live_leases(repository: Repository, lease: Lease) -> list[ListedLease]:
    """The leases of others; those that ended without being given back are removed."""
    lease.require()
    others = []
    # Behind a storage daemon an agent of this machine is a client as all others.
    is_served = repository.store.capability(KeepsJudgements) is not None
    key = required_appliance_key(repository.key)
    own = APPLIANCE if is_served else key.client_id(socket.gethostname())
    for listed in list_leases(repository.store, repository.key, without=lease.name):
        if has_ended(listed, lease.store_time_ns, own=own):
            repository.store.delete("leases", listed.name)
        else:
            others.append(listed)
    return others


def sweep(
    repository: Repository,
    lease: Lease,
    marker: Marker,
    options: PruneOptions,
    progress: Progress,
    only: frozenset[str] = frozenset(),
    known: Index | None = None,
) -> Swept:
    """Remove what may be removed now.

    `only`: the tombstones to sweep,
    by a prune that still relies on packs which others may have marked since it began. `known`: an
    index loaded before; where it is still that of the repository it is not read again. Raises
    LeaseError when our own lease has ended, DamageError when a snapshot can't be read: then
    nothing is removed.
    """
    swept = Swept()
    others = live_leases(repository, lease)
    ready = _ripe_tombstones(repository, lease, others, options.grace_seconds, swept)
    if only:
        ready &= only
    try:
        exclusive = exclusive_lease(repository, lease)
    except LeaseError:
        swept.waiting_for = ("another prune, which is removing packs right now",)
    else:
        with exclusive:
            exclusive.start_renewing()
            _sweep(repository, marker, ready, swept, progress, options.memory_bytes, known)
    for tombstone in read_tombstones(repository.store, repository.key):
        swept.waiting_packs += len(tombstone.pack_ids)
    swept.temporary_files = repository.store.remove_abandoned()
    return swept


def _ripe_tombstones(
    repository: Repository,
    lease: Lease,
    others: list[ListedLease],
    grace_seconds: float | None,
    swept: Swept,
) -> set[str]:
    if grace_seconds is None:
        grace_seconds = GRACE_BESIDE_OTHERS_SECONDS if others else 0.0
    ripe = set()
    barring: dict[str, None] = {}
    holdups: dict[Holdup, None] = {}
    infos = list(repository.store.list("tombstones"))
    names = [info.name for info in infos]
    owners = {
        one.name: one.owner for one in read_tombstones(repository.store, repository.key, names)
    }
    for info in infos:
        # Whatever a client's lease says, it has ended or began when this tombstone was there.
        is_old = lease.store_time_ns - info.modified_ns > int(_OLD_SECONDS * SECOND_NS)
        bars = [
            listed
            for listed in others
            if _concerns(listed, owners.get(info.name, SHARED))
            and (listed.holder is None or info.name not in listed.holder.tombstones)
            and not (is_old and listed.may_be_a_clients)
        ]
        if bars:
            found = [Holdup.of(listed, lease.store_time_ns) for listed in bars]
            holdups.update(dict.fromkeys(found))
            barring.update(dict.fromkeys(one.text for one in found))
        elif lease.store_time_ns - info.modified_ns < int(grace_seconds * SECOND_NS):
            barring[f"a grace of {grace_seconds:.0f} s to pass"] = None
        else:
            ripe.add(info.name)
    swept.waiting_for = tuple(barring)
    swept.holdups = tuple(holdups)
    return ripe


def _concerns(listed: ListedLease, owner: bytes) -> bool:
    """Whether the holder of a lease may refer to packs of this owner."""
    return owner == SHARED or listed.owner in (owner, APPLIANCE, b"")


def exclusive_lease(repository: Repository, lease: Lease) -> Lease:
    """The lease that only one job may hold that removes packs; LeaseError when another does."""
    purpose = f"{lease.holder.purpose}, removing"
    holder = Holder(lease.holder.host, lease.holder.process_id, purpose, clock.now_ns(), ())
    return Lease(
        repository.store, repository.key, repository.cipher, APPLIANCE, holder, name=SWEEP_LEASE
    )


def _sweep(
    repository: Repository,
    marker: Marker,
    ready: set[str],
    swept: Swept,
    progress: Progress,
    memory_bytes: int,
    known: Index | None,
) -> None:
    store = repository.store
    index, tombstones, present, needed, gone = again_if_replaced(
        lambda: _judge(repository, marker, ready, memory_bytes, known)
    )
    condemned = {pack_id for tombstone in tombstones for pack_id in tombstone.pack_ids}
    # Before the packs go: anyone who loads the index from now on refers to none of them.
    rewrite_index(repository, index, (condemned | gone) - needed)
    progress.message("removing packs")
    for tombstone in tombstones:
        going: dict[str, int] = {}
        for pack_id in tombstone.pack_ids:
            if pack_id in needed:
                swept.kept_after_all += 1
            elif (size_bytes := present.pop(pack_id.hex(), None)) is not None:
                going[pack_id.hex()] = size_bytes
        for name, error in delete_each(store, "packs", list(going)):
            if error is not None:
                raise error
            swept.packs += 1
            swept.bytes += going[name]
        # After its packs: killed in between, the next prune finds the tombstone and continues.
        store.delete("tombstones", tombstone.name)
    store.sync()


def _judge(
    repository: Repository,
    marker: Marker,
    ready: set[str],
    memory_bytes: int,
    known: Index | None,
) -> tuple[Index, list[Tombstone], dict[str, int], set[bytes], set[bytes]]:
    """The index, the tombstones to sweep, packs there, those needed, and those gone for good."""
    store = repository.store
    # In this order: see the promises above.
    counting = Counting(repository, marker, memory_bytes)
    index = _still_current(repository, known) or counting.packs()
    present = {info.name: info.size_bytes for info in store.list("packs")}
    tombstones = [one for one in read_tombstones(store, repository.key) if one.name in ready]
    # A truncated pack counts as missing.
    missing = {
        pack.pack_id for pack in index.packs() if present.get(pack.pack_id.hex()) != pack.size_bytes
    }
    judged = missing.union(*(tombstone.pack_ids for tombstone in tombstones))
    needed: set[bytes] = set()
    for part, marks in counting.marked(index) if judged or counting.is_at_once else ():
        needed |= _needed(repository, part, marks.live, tombstones, judged, missing)
        # Before the next part is read.
        del part, marks
    # What a snapshot needs that cannot be read is not known.
    aside = marker.false_owners
    gone = {
        pack_id
        for pack_id in missing
        if (pack := index.pack(pack_id)) is None or index.owners[pack.owner] not in aside
    }
    swept = [tombstone for tombstone in tombstones if tombstone.owner not in aside]
    return index, swept, present, needed, gone


def _still_current(repository: Repository, known: Index | None) -> Index | None:
    """`known` where loading the index would give the same, without marked packs."""
    store = repository.store
    if known is None or any(pack.marked for pack in known.packs()):
        return None
    if any(True for _ in store.list("tombstones")):
        return None
    listed = {info.name for info in store.list("index")}
    is_same = listed == {*known.object_names, *known.superseded_names}
    return known if is_same and store.unverified("index") == known.unverified_names else None


def _needed(
    repository: Repository,
    index: Index,
    live: LiveBlocks,
    tombstones: Sequence[Tombstone],
    judged: Collection[bytes],
    missing: Collection[bytes],
) -> set[bytes]:
    """Of packs that are marked or missing those that a used chunk might be only in."""
    if not judged:
        return set()
    store = repository.store
    uncertain = unverified_packs(store).union(missing)
    shared = SharedChunks.load(store, repository.key, index, uncertain)
    if any(tombstone.owner == SHARED for tombstone in tombstones):
        # Of snapshots made meanwhile too; also the packs that are condemned count here.
        every = SharedChunks.load(store, repository.key, index, uncertain, marked=True)
        mark_shared(repository, index, live, every)
    cover = _Cover(repository, index, live, uncertain, shared)
    return {
        pack_id
        for pack_id in judged
        if (pack := index.pack(pack_id)) is not None and cover.lacks(pack)
    }


class _Cover:
    """Used chunks in packs that stay and that are not unverified."""

    def __init__(
        self,
        repository: Repository,
        index: Index,
        live: LiveBlocks,
        missing: Collection[bytes],
        shared: SharedChunks,
    ) -> None:
        self._repository = repository
        self._index = index
        self._live = live
        self._shared = shared
        self._owners = index.owners
        self._packs = index.packs()
        self._pack_numbers = index.pack_numbers
        self._thinned = index.thinned
        stays = np.array(
            [not pack.marked and pack.pack_id not in missing for pack in self._packs], np.bool_
        )
        rows = np.flatnonzero(stays[self._pack_numbers])
        # The most complete copy first, as readers find it.
        rows = rows[np.argsort(-index.raw_lengths[rows].astype(np.int64), kind="stable")]
        ids = np.frombuffer(index.block_ids(), np.uint8).reshape(-1, BLOCK_ID_SIZE)[rows]
        self._table = OwnedIds()
        self._table.add(ids.tobytes(), index.owners_of_rows[rows], rows)
        self._dead: dict[bytes, tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.bool_]]] = {}

    def lacks(self, pack: IndexedPack) -> bool:
        """Whether a used chunk might be only in `pack`."""
        owner = self._owners[pack.owner]
        ids = self._index.block_ids(pack.first_row, pack.block_count)
        used = np.flatnonzero(self._live.uses(ids, owner))
        if not len(used):
            return False
        words = np.frombuffer(ids, np.uint8).reshape(-1, BLOCK_ID_SIZE)[used]
        copies = np.stack(
            [self._table.find(words.tobytes(), number) for number in {pack.owner, SHARED_NUMBER}]
        )
        there = copies >= 0
        if not there.any(axis=0).all():
            return True
        whole = there & ~self._thinned[copies]
        suspect = np.flatnonzero(~whole.any(axis=0))
        return any(
            self._has_lost([int(row) for row in copies[:, at] if row >= 0], owner)
            for at in suspect.tolist()
        )

    def _has_lost(self, rows: list[int], owner: bytes) -> bool:
        """Whether all copies of a block, thinned ones, lack a chunk that is used."""
        lost: NDArray[np.bool_] | None = None
        for row in rows:
            dead, covered = self._dead_chunks(row)
            lost = dead & ~covered if lost is None else lost & dead & ~covered
        assert lost is not None
        counts = np.array([len(lost)], np.int64)
        flags = self._live.flags(self._index.block_ids(rows[0], 1), counts, owner)
        return bool(np.any(flags & lost))

    def _dead_chunks(self, row: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """The chunks without bytes of the block of a row, and those that shared packs have."""
        pack = self._packs[self._pack_numbers[row]]
        known = self._dead.get(pack.pack_id)
        if known is None:
            footer = read_footer(self._repository.store, self._repository.key, pack.pack_id)
            columns = self._index.rows_of_footer(footer)
            known = (
                chunk_starts(columns.chunk_counts),
                dead_flags(columns),
                self._shared.covers(columns),
            )
            self._dead[pack.pack_id] = known
        starts, dead, covered = known
        first, last = starts[row - pack.first_row : row - pack.first_row + 2]
        return dead[first:last], covered[first:last]
