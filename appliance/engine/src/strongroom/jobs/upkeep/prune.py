"""Free the space that no snapshot needs.

Two phases, both in one run. The first marks: it determines which chunks snapshots use, repacks
packs of which little is used, and marks unneeded packs with a tombstone. The second (`sweep`)
removes marked packs once every writer that might still refer to them has ended. Backups are not
affected; prunes may run concurrently; a crash at any point wastes only space, which the next
prune frees.

Order of the first phase: lease, list of packs, snapshots, tombstones and index; new packs and their
index durable, then the tombstone. It removes nothing itself.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from strongroom import clock
from strongroom.clock import SECOND_NS
from strongroom.content.digests import is_object_name
from strongroom.errors import DamageError, ObjectMissingError, UnknownFormatError
from strongroom.jobs.upkeep.holdups import Holdup
from strongroom.jobs.upkeep.marking import Marker
from strongroom.jobs.upkeep.pack_usage import (
    Keepers,
    Usage,
    choose_repacked,
    mark_shared,
    measure_usage,
    require_present,
)
from strongroom.jobs.upkeep.repack import Repacker
from strongroom.jobs.upkeep.sweep import Swept, doubted_packs, live_leases, sweep
from strongroom.repo.index.shared_chunks import SharedChunks
from strongroom.repo.keys.owners import SHARED
from strongroom.repo.leases import APPLIANCE, MOST_AGE_SECONDS, list_leases
from strongroom.repo.packs import read_owner
from strongroom.repo.ticket_objects import remove_expired_tickets
from strongroom.repo.tombstones import read_tombstones, write_tombstone
from strongroom.stores.capabilities import ChargesShared

if TYPE_CHECKING:
    from collections.abc import Mapping

    from strongroom.progress import Progress
    from strongroom.repo.index.index import Index
    from strongroom.repo.leases import Lease
    from strongroom.repo.packs import PackFooter
    from strongroom.repo.repository import Repository
    from strongroom.stores.store import ObjectInfo

_ATTEMPTS: Final = 5


@dataclass(frozen=True, slots=True)
class PruneOptions:
    """Options of a prune.

    repack_below: packs used to less than this share may be repacked. max_unused: packs are repacked
    until the unused part is no more than this share of the used one. grace_seconds: how long marked
    packs stay; None: not at all while nobody else holds a lease, else an hour. spare_seconds: packs
    are skipped if they are newer than the oldest running job, less this allowance for clock
    differences, as the job may have written them. threads: 0 for one a core.
    """

    repack_below: float = 0.8
    max_unused: float = 0.05
    grace_seconds: float | None = None
    spare_seconds: float = 3600.0
    threads: int = 0
    dry_run: bool = False

    def thread_count(self) -> int:
        """Threads that repack."""
        return self.threads or min(8, len(os.sched_getaffinity(0)))


@dataclass(frozen=True, slots=True)
class PruneReport:
    """What a prune found and did; sizes in bytes.

    packs, pack_bytes: in the store at the beginning. used_bytes, unused_bytes: of the blocks in
    packs that are not marked. unused_packs: those without anything used. orphan_packs: of these,
    the ones in no index. repacked_packs: partly used packs that were copied, with repacked_bytes in
    their place. marked_packs: marked by this run. removed_packs, removed_bytes: actually deleted,
    also those marked by earlier runs. kept_packs: marked once but needed after all.
    waiting_packs: marked and still there, because of waiting_for. spared_packs, spared_bytes:
    without anything used, but not marked, as a job that runs may have stored them. holdups: the
    leases that keep those two. freed_bytes: what the store lost
    in all. In a dry run removed_packs and removed_bytes are what the run would remove.
    false_snapshots: ids of unverified snapshots that refer to what is not there, or of an unknown
    version, and what is wrong; nothing of their clients is removed.
    """

    snapshots: int
    packs: int
    pack_bytes: int
    used_bytes: int
    unused_bytes: int
    unused_packs: int
    orphan_packs: int
    repacked_packs: int
    repacked_bytes: int
    marked_packs: int
    removed_packs: int
    removed_bytes: int
    kept_packs: int
    waiting_packs: int
    waiting_for: tuple[str, ...]
    spared_packs: int
    spared_bytes: int
    holdups: tuple[Holdup, ...]
    temporary_files: int
    elapsed_seconds: float
    dry_run: bool
    false_snapshots: tuple[tuple[str, str], ...] = ()

    @property
    def freed_bytes(self) -> int:
        """What the store has less than before."""
        return self.removed_bytes - self.repacked_bytes

    def summary(self) -> dict[str, Any]:
        """The fields of the JSON report (docs/json-output.md)."""
        return {
            "type": "prune",
            "dry_run": self.dry_run,
            "snapshots": self.snapshots,
            "packs": self.packs,
            "pack_bytes": self.pack_bytes,
            "used_bytes": self.used_bytes,
            "unused_bytes": self.unused_bytes,
            "unused_packs": self.unused_packs,
            "orphan_packs": self.orphan_packs,
            "repacked_packs": self.repacked_packs,
            "repacked_bytes": self.repacked_bytes,
            "marked_packs": self.marked_packs,
            "removed_packs": self.removed_packs,
            "removed_bytes": self.removed_bytes,
            "freed_bytes": self.freed_bytes,
            "kept_packs": self.kept_packs,
            "waiting_packs": self.waiting_packs,
            "waiting_for": list(self.waiting_for),
            "spared_packs": self.spared_packs,
            "spared_bytes": self.spared_bytes,
            "leases": [
                {
                    "purpose": one.purpose,
                    "host": one.host,
                    "process_id": one.process_id,
                    "age_seconds": round(one.age_seconds),
                }
                for one in self.holdups
            ],
            "temporary_files": self.temporary_files,
            "false_snapshots": [
                {"snapshot": name, "problem": problem} for name, problem in self.false_snapshots
            ],
            "elapsed_seconds": round(self.elapsed_seconds, 3),
        }


@dataclass(slots=True)
class _Plan:
    """Results of the first phase.

    owners: of the packs that may be marked. charges: bytes of shared packs by the client that uses
    them, which count in its quota: what it stored counts also when others share it. spared: indexed
    packs without anything used that leases of others (holdups) keep from being marked.
    """

    index: Index
    keepers: Keepers
    shared: SharedChunks
    owners: dict[bytes, bytes]
    charges: dict[bytes, int]
    usages: list[Usage]
    packs: dict[bytes, int]
    unused: list[bytes]
    orphans: list[bytes]
    repacked: list[Usage]
    spared: list[bytes]
    holdups: tuple[Holdup, ...]


def prune(repository: Repository, options: PruneOptions, progress: Progress) -> PruneReport:
    """Mark, repack and remove.

    KeyRightError with a put key; DamageError when a snapshot can't be read or lacks something:
    then nothing is removed. StoreError, LeaseError.
    """
    started = clock.elapsed_seconds()
    _ = repository.restore_key
    repository = repository.for_all_clients()
    marker = Marker(repository, progress)
    if options.dry_run:
        plan = _plan(repository, marker, None, options, progress)
        return _report(plan, marker, options, [], 0, _would_sweep(plan), started)
    with repository.lease(socket.gethostname(), os.getpid(), "prune") as lease:
        lease.start_renewing()
        remove_expired_tickets(repository.store, lease.store_time_ns)
        plan = _plan(repository, marker, lease, options, progress)
        _charge(repository, plan)
        swept = Swept()
        if plan.unused and plan.repacked:
            # Packs that need no copying are removed first, to make room on a nearly full disk.
            only = _mark(repository, lease, plan, plan.unused)
            swept.count(sweep(repository, lease, marker, options.grace_seconds, progress, only))
        footers = _repack(repository, plan, marker, options, progress)
        repacked = [usage.pack.pack_id for usage in plan.repacked]
        _mark(repository, lease, plan, repacked or plan.unused)
        swept.count(sweep(repository, lease, marker, options.grace_seconds, progress))
        marked_packs = len(plan.unused) + len(repacked)
        return _report(plan, marker, options, footers, marked_packs, swept, started)


def _mark(
    repository: Repository, lease: Lease, plan: _Plan, pack_ids: list[bytes]
) -> frozenset[str]:
    """Mark packs; the names of the tombstones, one for each owner."""
    if not pack_ids:
        return frozenset()
    by_owner: dict[bytes, list[bytes]] = {}
    for pack_id in pack_ids:
        by_owner.setdefault(plan.owners[pack_id], []).append(pack_id)
    lease.require()
    store, key, cipher = repository.store, repository.key, repository.cipher
    return frozenset(
        write_tombstone(store, key, owner, mine, cipher) for owner, mine in by_owner.items()
    )


def _plan(
    repository: Repository,
    marker: Marker,
    lease: Lease | None,
    options: PruneOptions,
    progress: Progress,
) -> _Plan:
    for _ in range(_ATTEMPTS):
        try:
            return _plan_once(repository, marker, lease, options, progress)
        except ObjectMissingError:
            # Another prune has replaced an index object since it was listed.
            continue
    return _plan_once(repository, marker, lease, options, progress)


def _plan_once(
    repository: Repository,
    marker: Marker,
    lease: Lease | None,
    options: PruneOptions,
    progress: Progress,
) -> _Plan:
    store = repository.store
    packs = [info for info in store.list("packs") if is_object_name(info.name)]
    names = [info.name for info in store.list("snapshots")]
    index = repository.load_index()
    progress.message(f"finding out what {len(names)} snapshots use")
    marker.mark(names, index)
    sizes = {bytes.fromhex(info.name): info.size_bytes for info in packs}
    # A power failure may have truncated a pack; its intact copies elsewhere must stay.
    cut_off = {
        pack.pack_id
        for pack in index.packs()
        if sizes.get(pack.pack_id, pack.size_bytes) != pack.size_bytes
    }
    # An unverified copy is no reason to remove another one.
    doubted = doubted_packs(store)
    keepers = Keepers(index, sizes.keys() - cut_off - doubted)
    shared = SharedChunks.load(store, repository.key, index, cut_off | doubted)
    lost = mark_shared(repository, index, marker.live, shared)
    usages = measure_usage(repository, index, keepers, marker.live, shared)
    # Packs added after the listing are in the index but not in `sizes`.
    late = {usage.pack.pack_id for usage in usages} - sizes.keys()
    sizes.update(
        (bytes.fromhex(info.name), info.size_bytes)
        for info in (store.list("packs") if late else ())
        if is_object_name(info.name) and bytes.fromhex(info.name) in late
    )
    require_present(usages, sizes.keys() - cut_off)
    unknown = _unknown(repository, index, packs)
    numbers = index.owners
    owners = {pack.pack_id: numbers[pack.owner] for pack in index.packs()}
    owners.update((pack_id, _owner_of(repository, pack_id)) for pack_id in unknown)
    held, holdups = _spared(repository, packs, owners, lease, options.spare_seconds)
    spared = held | late
    spared |= {pack_id for pack_id, owner in owners.items() if owner in marker.false_owners}
    orphans = [pack_id for pack_id in unknown if pack_id not in spared]
    settled = [usage for usage in usages if usage.pack.pack_id not in spared]
    unused = [usage.pack.pack_id for usage in settled if not usage.in_use]
    repacked = choose_repacked(settled, options.repack_below, options.max_unused, doubted)
    # A client's index could name another's pack, whose leases would not keep it then.
    for pack_id in unused + [usage.pack.pack_id for usage in repacked]:
        owners[pack_id] = _owner_of(repository, pack_id)
    repacked = [
        usage for usage in repacked if owners[usage.pack.pack_id] == numbers[usage.pack.owner]
    ]
    charges = _charges(index, marker, lost)
    idle = [one.pack.pack_id for one in usages if not one.in_use and one.pack.pack_id in held]
    return _Plan(
        *(index, keepers, shared, owners, charges, usages, sizes, unused + orphans, orphans),
        *(repacked, idle, holdups if idle else ()),
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


def _charges(index: Index, marker: Marker, lost: dict[bytes, int]) -> dict[bytes, int]:
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


def _charge(repository: Repository, plan: _Plan) -> None:
    """Tell a storage daemon what counts in the quotas of clients besides their own packs."""
    quotas = repository.store.capability(ChargesShared)
    if quotas is not None:
        for owner, size_bytes in plan.charges.items():
            quotas.charge(owner, size_bytes)


def _owner_of(repository: Repository, pack_id: bytes) -> bytes:
    """Whose a pack says it is; nobody's, which every lease bars, where it says nothing."""
    try:
        return read_owner(repository.store, pack_id)
    except (DamageError, UnknownFormatError, ObjectMissingError):
        return SHARED


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


def _repack(
    repository: Repository,
    plan: _Plan,
    marker: Marker,
    options: PruneOptions,
    progress: Progress,
) -> list[PackFooter]:
    if not plan.repacked:
        return []
    progress.message(f"repacking {len(plan.repacked)} packs")
    progress.total(bytes=sum(usage.used_bytes for usage in plan.repacked))
    repacker = Repacker(
        repository, plan.keepers, marker.live, plan.shared, progress, options.thread_count()
    )
    footers = repacker.run([usage.pack for usage in plan.repacked])
    repository.write_index(footers)
    # Before the old packs are marked, their replacements must be durable.
    repository.store.sync()
    return footers


def _would_sweep(plan: _Plan) -> Swept:
    removed = plan.unused + [usage.pack.pack_id for usage in plan.repacked]
    return Swept(packs=len(removed), bytes=sum(plan.packs.get(pack_id, 0) for pack_id in removed))


def _report(
    plan: _Plan,
    marker: Marker,
    options: PruneOptions,
    footers: list[PackFooter],
    marked_packs: int,
    swept: Swept,
    started: float,
) -> PruneReport:
    repacked_bytes = sum(footer.size_bytes for footer in footers)
    if options.dry_run:
        repacked_bytes = sum(usage.used_bytes for usage in plan.repacked)
    return PruneReport(
        snapshots=len(marker),
        packs=len(plan.packs),
        pack_bytes=sum(plan.packs.values()),
        used_bytes=sum(usage.used_bytes for usage in plan.usages),
        unused_bytes=sum(usage.unused_bytes for usage in plan.usages)
        + sum(plan.packs[pack_id] for pack_id in plan.orphans),
        unused_packs=len(plan.unused),
        orphan_packs=len(plan.orphans),
        repacked_packs=len(plan.repacked),
        repacked_bytes=repacked_bytes,
        marked_packs=marked_packs,
        removed_packs=swept.packs,
        removed_bytes=swept.bytes,
        kept_packs=swept.kept_after_all,
        waiting_packs=swept.waiting_packs,
        waiting_for=swept.waiting_for,
        spared_packs=len(plan.spared),
        spared_bytes=sum(plan.packs.get(pack_id, 0) for pack_id in plan.spared),
        holdups=tuple(dict.fromkeys((*swept.holdups, *plan.holdups))),
        temporary_files=swept.temporary_files,
        elapsed_seconds=clock.elapsed_seconds() - started,
        dry_run=options.dry_run,
        false_snapshots=tuple(sorted(marker.false_snapshots.items())),
    )
