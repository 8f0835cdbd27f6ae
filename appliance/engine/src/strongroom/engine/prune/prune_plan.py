"""What a prune decides before it changes anything: which packs go, and which are repacked.

Order: list of packs, snapshots, tombstones and index. What appears later is left alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec
import numpy as np

from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.base.errors import DamageError, ObjectMissingError, UnknownFormatError
from strongroom.base.progress import Progress
from strongroom.base.quantities import counted
from strongroom.engine.content.digests import is_object_name
from strongroom.engine.prune.marking import Marker
from strongroom.engine.prune.pack_usage import PackUsage, choose_repacked, set_lost_aside
from strongroom.engine.prune.prune_options import Holdup, PruneOptions
from strongroom.engine.prune.range_counts import Counting, Counts, added
from strongroom.engine.prune.sweep import live_leases
from strongroom.engine.repository.index.index import Index, again_if_replaced
from strongroom.engine.repository.keys.owners import SHARED
from strongroom.engine.repository.leases import APPLIANCE, MOST_AGE_SECONDS, Lease, list_leases
from strongroom.engine.repository.packs import read_owner
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.tombstones import read_tombstones
from strongroom.engine.stores.at_once import read_each
from strongroom.engine.stores.store import ObjectInfo


class PrunePlan(msgspec.Struct):
    """Results of the first phase.

    index, counts: all blocks and what decides about them, where they were counted at once.
    owners: of the packs that may be marked. charges: bytes of shared packs by the client that uses
    them, which count in its quota: what it stored counts also when others share it. spared: indexed
    packs without anything used that leases of others (holdups) keep from being marked.
    is_settled: nothing is to be done, and no lease keeps packs from being judged.
    """

    index: Index | None
    counts: Counts | None
    owners: dict[bytes, bytes]
    charges: dict[bytes, int]
    usages: list[PackUsage]
    packs: dict[bytes, int]
    unused: list[bytes]
    orphans: list[bytes]
    repacked: list[PackUsage]
    spared: list[bytes]
    holdups: tuple[Holdup, ...]
    is_settled: bool


def plan_prune(
    repository: Repository,
    marker: Marker,
    lease: Lease | None,
    options: PruneOptions,
    progress: Progress,
) -> PrunePlan:
    """Mark what snapshots use, and decide; lease: of the prune, None for a dry run."""
    return again_if_replaced(lambda: _plan_once(repository, marker, lease, options, progress))


def _plan_once(
    repository: Repository,
    marker: Marker,
    lease: Lease | None,
    options: PruneOptions,
    progress: Progress,
) -> PrunePlan:
    store = repository.store
    packs = [info for info in store.list("packs") if is_object_name(info.name)]
    counting = Counting(repository, marker, options.memory_bytes)
    progress.message(f"reading which packs {counted(len(counting.names), 'snapshot')} need")
    sizes = {bytes.fromhex(info.name): info.size_bytes for info in packs}
    found: dict[bytes, PackUsage] = {}
    order: tuple[int, list[bytes]] | None = None
    left = counting.part_count
    for counts in counting.all_parts(sizes):
        # Numbers of owners are those of one part, and a pack that is dropped would change them.
        mine = len(counts.index.packs()), counts.index.owners
        if order is not None and mine != order:
            raise ObjectMissingError("packs came or went while the index was read in parts")
        order = mine
        for usage in counts.usages(repository):
            pack_id = usage.pack.pack_id
            found[pack_id] = added(found[pack_id], usage) if pack_id in found else usage
        left -= 1
        if left:
            del counts
    index, measured = counts.index, list(found.values())
    cut_off = {
        pack.pack_id
        for pack in index.packs()
        if sizes.get(pack.pack_id, pack.size_bytes) != pack.size_bytes
    }
    # Packs added after the listing are in the index but not in `sizes`.
    late = {usage.pack.pack_id for usage in measured} - sizes.keys()
    sizes.update(
        (bytes.fromhex(info.name), info.size_bytes)
        for info in (store.list("packs") if late else ())
        if is_object_name(info.name) and bytes.fromhex(info.name) in late
    )
    set_lost_aside(measured, sizes.keys() - cut_off, index, marker)
    # The sweep judges those that are marked.
    usages = [usage for usage in measured if not usage.pack.marked]
    unknown = _unknown(repository, index, packs)
    numbers = index.owners
    owners = {pack.pack_id: numbers[pack.owner] for pack in index.packs()}
    owners.update(_owners_of(repository, unknown))
    held, holdups = _spared(repository, packs, owners, lease, options.spare_seconds)
    spared = held | late
    spared |= {pack_id for pack_id, owner in owners.items() if owner in marker.false_owners}
    orphans = [pack_id for pack_id in unknown if pack_id not in spared]
    settled = [usage for usage in usages if usage.pack.pack_id not in spared]
    unused = [usage.pack.pack_id for usage in settled if not usage.in_use]
    repacked = choose_repacked(
        settled, options.repack_below, options.max_unused, counting.unverified
    )
    # A client's index could name another's pack, whose leases would not keep it then.
    owners.update(_owners_of(repository, unused + [usage.pack.pack_id for usage in repacked]))
    repacked = [
        usage for usage in repacked if owners[usage.pack.pack_id] == numbers[usage.pack.owner]
    ]
    charges = _charges(counts)
    idle = [one.pack.pack_id for one in usages if not one.in_use and one.pack.pack_id in held]
    return PrunePlan(
        index=index if counting.is_at_once else None,
        counts=counts if counting.is_at_once else None,
        owners=owners,
        charges=charges,
        usages=usages,
        packs=sizes,
        unused=unused + orphans,
        orphans=orphans,
        repacked=repacked,
        spared=idle,
        holdups=holdups if idle else (),
        is_settled=not (unused or orphans or repacked or spared or marker.set_aside),
    )


def _unknown(repository: Repository, index: Index, packs: list[ObjectInfo]) -> list[bytes]:
    """Packs that are neither in the index nor marked."""
    marked = {
        pack_id
        for tombstone in read_tombstones(repository.store, repository.key)
        for pack_id in tombstone.pack_ids
    }
    ids = [bytes.fromhex(info.name) for info in packs]
    return [pack_id for pack_id in ids if index.pack(pack_id) is None and pack_id not in marked]


def _charges(counts: Counts) -> dict[bytes, int]:
    """Where blocks were counted in parts, of any of them: then nothing is shared."""
    index, marker, lost = counts.index, counts.marker, counts.lost
    blocks = index.of_client(SHARED)
    stored = index.stored_lengths.astype(np.int64)
    is_shared = index.owners_of_rows == blocks.number
    raw_bytes = int(index.raw_lengths[is_shared].sum(dtype=np.int64))
    ratio = int(stored[is_shared].sum()) / max(1, raw_bytes)
    charges = {}
    for owner in index.owners:
        if owner != SHARED:
            rows = blocks.rows_of(marker.shared_blocks(owner))
            whole = int(stored[rows[rows >= 0]].sum())
            charges[owner] = whole + int(lost.get(owner, 0) * ratio)
    return charges


def _owners_of(repository: Repository, pack_ids: list[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """Whose packs say they are; no one's, which every lease bars, where one says nothing."""
    store, names = repository.store, [pack_id.hex() for pack_id in pack_ids]
    for name, found in read_each(store, names, lambda one: read_owner(store, bytes.fromhex(one))):
        owner = found
        if isinstance(found, DamageError | UnknownFormatError | ObjectMissingError):
            owner = SHARED
        if isinstance(owner, Exception):
            raise owner
        yield bytes.fromhex(name), owner


def _spared(
    repository: Repository,
    packs: list[ObjectInfo],
    owners: Mapping[bytes, bytes],
    lease: Lease | None,
    spare_seconds: float,
) -> tuple[frozenset[bytes], tuple[Holdup, ...]]:
    """Packs that a running writer may have written and will use, though no snapshot does yet.

    And the leases of such writers. A client's lease spares packs of that client only. Only an
    optimization: the sweep removes wrong marks.
    """
    if lease is not None:
        others = live_leases(repository, lease)
        now_ns = lease.store_time_ns
    else:
        others = list_leases(repository.store, repository.key)
        now_ns = clock.now_ns()
    if not others:
        return frozenset(), ()
    earliest_ns: dict[bytes, int] = {}
    for one in others:
        begun_ns = one.holder.started_ns if one.holder else 0
        if one.may_be_a_clients:
            begun_ns = max(begun_ns, now_ns - int(MOST_AGE_SECONDS * SECOND_NS))
        begun_ns -= int(spare_seconds * SECOND_NS)
        earliest_ns[one.owner] = min(begun_ns, earliest_ns.get(one.owner, begun_ns))
    spared = set()
    for info in packs:
        pack_id = bytes.fromhex(info.name)
        # A lease that does not even say whose it is may be anybody's.
        barring = {APPLIANCE, b"", owners.get(pack_id, APPLIANCE)} & earliest_ns.keys()
        if barring and info.modified_ns >= min(earliest_ns[one] for one in barring):
            spared.add(pack_id)
    return frozenset(spared), tuple(Holdup.of(one, now_ns) for one in others)
