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
from collections.abc import Mapping
from typing import Literal

import msgspec

from strongroom.base import clock
from strongroom.base.progress import Progress
from strongroom.base.quantities import counted
from strongroom.engine.prune.growth import grown, margin_of
from strongroom.engine.prune.hidden_versions import HiddenVersions, remove_hidden
from strongroom.engine.prune.kept_outcome import KeptOutcome, Outcome
from strongroom.engine.prune.marking import Marker
from strongroom.engine.prune.prune_options import PruneOptions, PruneReport
from strongroom.engine.prune.prune_plan import PrunePlan, plan_prune
from strongroom.engine.prune.range_counts import Counting, Counts, batches
from strongroom.engine.prune.repack import Repacker
from strongroom.engine.prune.sweep import Swept, live_leases, sweep
from strongroom.engine.repository.index.index import again_if_replaced
from strongroom.engine.repository.leases import Lease
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.ticket_objects import remove_expired_tickets
from strongroom.engine.repository.tombstones import write_tombstone
from strongroom.engine.stores.capabilities import ChargesShared, with_reserve
from strongroom.engine.stores.object_lock import LocksObjects


def prune(repository: Repository, options: PruneOptions, progress: Progress) -> PruneReport:
    """Mark, repack and remove.

    KeyRightError with a put key; DamageError when a snapshot can't be read or lacks something:
    then nothing is removed. StoreError, LeaseError.
    """
    started = clock.elapsed_seconds()
    _ = repository.restore_key
    repository = repository.for_all_clients()
    marker = Marker(repository, progress)
    kept: KeptOutcome | None = None
    if options.dry_run:
        plan = plan_prune(repository, marker, None, options, progress)
        figures = _figures(plan, marker)
        return _report(plan, figures, marker, options, 0, _would_sweep(plan), started)
    with (
        with_reserve(repository.store),
        repository.lease(socket.gethostname(), os.getpid(), "prune") as lease,
    ):
        lease.start_renewing()
        remove_expired_tickets(repository.store, lease.store_time_ns)
        # What is hidden in a locked repository is freed by the clock, without a change of names.
        if repository.config.lock_rule is None:
            kept = KeptOutcome(repository, "prune", (options.repack_below, options.max_unused))
            if not options.recount and (found := _still_holds(repository, kept, options)):
                return _still_nothing(repository, lease, found, started)
        plan = plan_prune(repository, marker, lease, options, progress)
        figures = _figures(plan, marker)
        recount = _compared(plan, figures, kept)
        _charge(repository, plan.charges)
        swept = Swept()
        if plan.unused and plan.repacked:
            # Packs that need no copying are removed first, to make room on a nearly full disk.
            only = _mark(repository, lease, plan, plan.unused)
            swept.count(sweep(repository, lease, marker, options, progress, only))
        repacked, repacked_bytes = _repack(repository, plan, marker, options, progress)
        _mark(repository, lease, plan, repacked or plan.unused)
        known = None if plan.unused or repacked else plan.index
        swept.count(sweep(repository, lease, marker, options, progress, known=known))
        marked_packs = len(plan.unused) + len(repacked)
        hidden = _remove_hidden(repository, lease, marker, options)
        if kept is not None and plan.is_settled and not (swept.packs or swept.waiting_packs):
            kept.keep(figures, plan.charges, margin_of(plan.usages, list(plan.owners.values())))
        report = _report(plan, figures, marker, options, repacked_bytes, swept, started, hidden)
        return msgspec.structs.replace(report, marked_packs=marked_packs, recount=recount)


def _still_holds(
    repository: Repository, kept: KeptOutcome, options: PruneOptions
) -> Outcome | None:
    """The outcome of an earlier prune if still nothing is to be done; None to count all."""
    if kept.found is not None:
        return kept.found if kept.found.is_recent else None
    if kept.earlier is None:
        return None
    outcome = grown(repository, kept.earlier, kept.listed, options)
    if outcome is not None:
        kept.keep_grown(outcome)
    return outcome


def _still_nothing(
    repository: Repository, lease: Lease, found: Outcome, started: float
) -> PruneReport:
    """The report of a prune that finds everything as an earlier one left it."""
    _charge(repository, found.charges)
    live_leases(repository, lease)
    snapshots, packs, pack_bytes, used_bytes, unused_bytes = found.figures
    return PruneReport(
        snapshots,
        packs,
        pack_bytes,
        used_bytes,
        unused_bytes,
        temporary_files=repository.store.remove_abandoned(),
        elapsed_seconds=clock.elapsed_seconds() - started,
        counted_ns=found.found_ns,
    )


def _figures(plan: PrunePlan, marker: Marker) -> tuple[int, int, int, int, int]:
    """The first figures of the report."""
    return (
        len(marker),
        len(plan.packs),
        sum(plan.packs.values()),
        sum(usage.used_bytes for usage in plan.usages),
        sum(usage.unused_bytes for usage in plan.usages)
        + sum(plan.packs[pack_id] for pack_id in plan.orphans),
    )


def _mark(
    repository: Repository, lease: Lease, plan: PrunePlan, pack_ids: list[bytes]
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


def _charge(repository: Repository, charges: Mapping[bytes, int]) -> None:
    """Tell a storage daemon what counts in the quotas of clients besides their own packs."""
    quotas = repository.store.capability(ChargesShared)
    if quotas is not None:
        for owner, size_bytes in charges.items():
            quotas.charge(owner, size_bytes)


def _repack(
    repository: Repository,
    plan: PrunePlan,
    marker: Marker,
    options: PruneOptions,
    progress: Progress,
) -> tuple[list[bytes], int]:
    """Copy what is used of packs; those that were copied, and the bytes of the new ones."""
    if not plan.repacked:
        return [], 0
    progress.message(f"repacking {counted(len(plan.repacked), 'pack')}")
    progress.total(bytes=sum(usage.used_bytes for usage in plan.repacked))
    copied: list[bytes] = []
    copies_bytes = 0
    for batch in batches(plan.repacked, options.memory_bytes):
        pack_ids = [usage.pack.pack_id for usage in batch]
        counts = plan.counts
        if counts is None:
            counts = _counts_of(repository, marker, options, plan, pack_ids)
        packs = [pack for one in pack_ids if (pack := counts.index.pack(one)) is not None]
        repacker = Repacker(
            repository,
            counts.keepers,
            counts.marker.live,
            counts.shared,
            progress,
            options.thread_count(),
        )
        footers = repacker.run(packs)
        repository.write_index(footers)
        # Before the old packs are marked, their replacements must be durable.
        repository.store.sync()
        copied += [pack.pack_id for pack in packs]
        copies_bytes += sum(footer.size_bytes for footer in footers)
    return copied, copies_bytes


def _counts_of(
    repository: Repository,
    marker: Marker,
    options: PruneOptions,
    plan: PrunePlan,
    pack_ids: list[bytes],
) -> Counts:
    """Of now: the batch before has written to the index, and others may have."""
    return again_if_replaced(
        lambda: Counting(repository, marker, options.memory_bytes).of_packs(pack_ids, plan.packs)
    )


def _remove_hidden(
    repository: Repository, lease: Lease, marker: Marker, options: PruneOptions
) -> HiddenVersions | None:
    """Free what was deleted and is locked no longer; None where nothing is locked."""
    locking, rule = repository.store.capability(LocksObjects), repository.config.lock_rule
    if locking is None or rule is None:
        return None
    # Perhaps somebody hid the snapshots, or what they need: then nothing goes for good.
    may_remove = len(marker) > 0 and not marker.set_aside.problems
    index = again_if_replaced(lambda: Counting(repository, marker, options.memory_bytes).packs())
    indexed = {pack.pack_id.hex() for pack in index.packs()}
    lease.require()
    return remove_hidden(locking, rule, lease.store_time_ns, indexed, may_remove=may_remove)


def _would_sweep(plan: PrunePlan) -> Swept:
    removed = plan.unused + [usage.pack.pack_id for usage in plan.repacked]
    return Swept(packs=len(removed), bytes=sum(plan.packs.get(pack_id, 0) for pack_id in removed))


def _compared(
    plan: PrunePlan, figures: tuple[int, ...], kept: KeptOutcome | None
) -> Literal["", "same", "different"]:
    """Whether what was kept is what is found; "" where the repository is another meanwhile."""
    if kept is None or kept.found is None or not kept.is_unchanged():
        return ""
    # What the new snapshots use of old packs was not counted.
    compared = 3 if kept.found.is_grown else len(figures)
    is_same = not plan.unused and not plan.repacked
    is_same = is_same and kept.found.figures[:compared] == figures[:compared]
    return "same" if is_same else "different"


def _report(
    plan: PrunePlan,
    figures: tuple[int, int, int, int, int],
    marker: Marker,
    options: PruneOptions,
    repacked_bytes: int,
    swept: Swept,
    started: float,
    hidden: HiddenVersions | None = None,
) -> PruneReport:
    if options.dry_run:
        repacked_bytes = sum(usage.used_bytes for usage in plan.repacked)
    return PruneReport(
        *figures,
        unused_packs=len(plan.unused),
        orphan_packs=len(plan.orphans),
        repacked_packs=len(plan.repacked),
        repacked_bytes=repacked_bytes,
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
        set_aside=marker.set_aside,
        hidden=hidden,
    )
