"""Repair: remove what is lost, report the affected files, keep the rest.

In order: unreadable small objects, the index (rebuilt from pack footers if it differs from them),
damaged packs (their intact blocks are copied out), and snapshots that have lost something
(replaced by ones that mark it). Each step leaves the repository no worse than before if the
machine stops there. A damaged object is deleted only after all that can be saved of it is
durable elsewhere.

Runs beside backups, but not beside the removing phase of a prune, whose lease it holds.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Collection
from typing import Final, Literal

import msgspec

from strongroom.base import clock
from strongroom.base.errors import DamageError, ObjectMissingError
from strongroom.base.progress import Progress
from strongroom.base.quantities import counted
from strongroom.engine.check.packs import PackAnswer, PackQuestion, check_pack
from strongroom.engine.check.pages import ClientPage, PageAnswer, PageChecker
from strongroom.engine.check.verified_index import SoundIndex, load_sound_index
from strongroom.engine.content.digests import is_object_name, object_name
from strongroom.engine.processes.forked_map import ForkedMap, default_processes
from strongroom.engine.prune.index_rewrite import rebuild_index, rewrite_index
from strongroom.engine.prune.sweep import exclusive_lease, live_leases
from strongroom.engine.repair.salvage import (
    LostBlock,
    SavedPacks,
    heal_blocks,
    indexed_footers,
    save_blocks,
    whole_blocks,
)
from strongroom.engine.repair.snapshots import SnapshotLoss, find_loss, replace_snapshot
from strongroom.engine.repository.leases import Lease, list_leases
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.set_aside import SetAside, is_of_one_object
from strongroom.engine.repository.snapshots import Snapshot
from strongroom.engine.stores.capabilities import found_false, with_reserve
from strongroom.engine.stores.store import Kind

Part = Literal["index", "packs", "snapshots"]

ALL_PARTS: Final[frozenset[Part]] = frozenset(("index", "packs", "snapshots"))
_RENEWAL_SECONDS: Final = 30.0


class RepairOptions(msgspec.Struct, frozen=True):
    """What to repair. With "packs" among the parts every byte is read."""

    parts: frozenset[Part] = ALL_PARTS
    processes: int = 0
    dry_run: bool = False


class RepairAction(msgspec.Struct, frozen=True):
    """One thing done (or, in a dry run, to be done) to an object."""

    kind: str
    name: str
    text: str


class RepairReport(msgspec.Struct, frozen=True):
    """What was done and what is lost for good.

    saved_blocks: copied out of damaged packs. healed_chunks: found again in other blocks. losses:
    of each snapshot that has lost something. set_aside: what could not be read and may be sound: it
    was left alone.
    """

    actions: tuple[RepairAction, ...]
    losses: tuple[SnapshotLoss, ...]
    saved_blocks: int
    healed_chunks: int
    elapsed_seconds: float
    dry_run: bool
    set_aside: SetAside


class _Repair(msgspec.Struct):
    """A repair in progress."""

    repository: Repository
    options: RepairOptions
    progress: Progress
    leases: tuple[Lease, ...]
    actions: list[RepairAction] = []
    set_aside: SetAside = msgspec.field(default_factory=SetAside)
    renewed: float = 0.0
    saved_blocks: int = 0
    healed_chunks: int = 0

    def act(self, kind: str, name: str, text: str) -> None:
        """Record an action."""
        self.actions.append(RepairAction(kind, name, text))

    def delete(self, kind: Kind, name: str) -> None:
        """Delete an object, unless this is a dry run."""
        if not self.options.dry_run:
            self.repository.store.delete(kind, name)

    def renew(self) -> None:
        """Renew the leases; by hand, since processes are forked."""
        now = clock.elapsed_seconds()
        if now - self.renewed > _RENEWAL_SECONDS:
            for lease in self.leases:
                lease.require()
            self.renewed = now


def repair(repository: Repository, options: RepairOptions, progress: Progress) -> RepairReport:
    """Repair a repository.

    KeyRightError with a put key, LeaseError while a prune is removing packs, StoreError.
    """
    started = clock.elapsed_seconds()
    _ = repository.restore_key
    repository = repository.for_all_clients()
    with (
        with_reserve(repository.store),
        repository.lease(socket.gethostname(), os.getpid(), "repair") as lease,
    ):
        # Also removes what an earlier repair or prune left that was killed.
        live_leases(repository, lease)
        with exclusive_lease(repository, lease) as exclusive:
            return _repair_all(repository, options, progress, (lease, exclusive), started)


def _repair_all(
    repository: Repository,
    options: RepairOptions,
    progress: Progress,
    leases: tuple[Lease, ...],
    started: float,
) -> RepairReport:
    run = _Repair(repository, options, progress, leases)
    run.renewed = started
    _repair_small_objects(run)
    progress.message("reading the index")
    known = load_sound_index(repository)
    answers = _check_packs(run, known)
    lost = _repair_index_and_packs(run, known, answers)
    losses: list[SnapshotLoss] = []
    if "snapshots" in options.parts:
        losses = _repair_snapshots(run, known, lost)
    return RepairReport(
        tuple(run.actions),
        tuple(losses),
        run.saved_blocks,
        run.healed_chunks,
        clock.elapsed_seconds() - started,
        options.dry_run,
        run.set_aside,
    )


def _repair_small_objects(run: _Repair) -> None:
    store = run.repository.store
    own = {lease.name for lease in run.leases}
    for listed in list_leases(store, run.repository.key):
        if listed.holder is None and listed.name not in own:
            # If its holder is still running, it detects the loss before it commits.
            run.act("leases", listed.name, "unreadable: removed")
            run.delete("leases", listed.name)
    sound: list[str] = []
    damaged: list[str] = []
    for info in store.list("keys"):
        data = store.get("keys", info.name)
        # Without its passphrase only the digest of its content can be verified.
        (sound if object_name(data) == info.name else damaged).append(info.name)
    for name in damaged:
        if sound:
            run.act("keys", name, "damaged, opens with no passphrase: removed")
            run.delete("keys", name)
        else:
            run.act("keys", name, "damaged, but the only one: left; add a passphrase (key add)")


def _check_packs(run: _Repair, known: SoundIndex) -> dict[bytes, PackAnswer]:
    """The problems of the packs that have any."""
    store = run.repository.store
    packs = {pack.pack_id: pack for pack in known.index.packs()}
    present = {
        bytes.fromhex(info.name): info.size_bytes
        for info in store.list("packs")
        if is_object_name(info.name)
    }
    read_data = "packs" in run.options.parts
    questions = [
        PackQuestion(pack_id, known.summaries.get(pack_id), read_data)
        for pack_id in sorted(packs.keys() | present.keys())
    ]
    run.progress.message("checking packs")
    if read_data:
        run.progress.total(bytes=sum(present.values()))
    processes = run.options.processes or default_processes()
    answers = {}
    with ForkedMap(run.repository, check_pack, min(processes, len(questions) // 4)) as pool:
        for question, answer in pool.run(questions):
            run.renew()
            run.progress.add(bytes=answer.read_bytes)
            pack = packs.get(question.pack_id)
            # No prune removes any meanwhile, so a marked pack of the index that is missing is lost.
            gone = answer.is_missing and pack is None
            if answer.is_unknown:
                run.set_aside.add("packs", question.pack_id.hex(), "; ".join(answer.problems))
            elif not gone and (answer.problems or answer.bad_blocks):
                answers[question.pack_id] = answer
            elif pack is None and not gone:
                # Sound, but not in the index.
                answers[question.pack_id] = PackAnswer([], [], [], False, False, 0)
    return answers


def _repair_index_and_packs(
    run: _Repair, known: SoundIndex, answers: dict[bytes, PackAnswer]
) -> set[tuple[bytes, bytes]]:
    """Rebuild the index, save intact blocks; returns the ids of lost blocks."""
    repository, options = run.repository, run.options
    unknown = {one for one, answer in answers.items() if not answer.problems}
    unknown -= {one for one, answer in answers.items() if answer.bad_blocks}
    bad = answers.keys() - unknown
    damaged_index = [item.name for item in known.damaged if item.kind == "index"]
    if damaged_index and "packs" in options.parts and "index" not in options.parts:
        raise DamageError("the index is damaged; run strongroom repair index first")
    for item in known.damaged:
        if item.kind == "tombstones":
            run.act("tombstones", item.name, "damaged: removed; its packs are kept")
            run.delete("tombstones", item.name)
        elif "index" in options.parts:
            run.act("index", item.name, "damaged: rebuilt from packs")
    rebuild = "index" in options.parts and bool(damaged_index or unknown)
    if rebuild and unknown:
        run.act("index", "", f"{counted(len(unknown), 'pack')} added that had no entry")
    lost: list[LostBlock] = []
    saved = SavedPacks(repository, dry_run=options.dry_run or "packs" not in options.parts)
    try:
        indexed = indexed_footers(repository, known.object_names, bad)
        elsewhere = whole_blocks(known.index, bad)
        for pack_id in sorted(bad):
            run.renew()
            before = saved.blocks
            mine = save_blocks(
                repository, pack_id, indexed.get(pack_id), known.index, elsewhere, saved
            )
            lost += mine
            if "packs" in options.parts:
                problem = "; ".join(answers[pack_id].problems) or "damaged"
                run.act(
                    "packs",
                    pack_id.hex(),
                    f"{problem}: {counted(saved.blocks - before, 'block')} saved, {len(mine)} lost",
                )
    except BaseException:
        saved.abort()
        raise
    if "packs" in options.parts:
        run.saved_blocks = saved.blocks
    if options.dry_run:
        return {(block.owner, block.entry.block_id) for block in lost}
    replaced = bad if "packs" in options.parts else frozenset()
    _write_index(run, known, damaged_index, rebuild, replaced, saved)
    if "packs" in options.parts:
        _heal(run, lost)
        for pack_id in bad:
            run.delete("packs", pack_id.hex())
        return set()
    return {(block.owner, block.entry.block_id) for block in lost}


def _write_index(
    run: _Repair,
    known: SoundIndex,
    damaged: list[str],
    rebuild: bool,
    replaced: Collection[bytes],
    saved: SavedPacks,
) -> None:
    repository = run.repository
    footers = saved.finish()
    # Saved blocks must be durable and indexed before the packs they came from are dropped.
    if footers:
        repository.write_index(footers)
    repository.store.sync()
    if rebuild:
        run.progress.message("rebuilding the index")
        rebuild_index(repository, replaced, damaged, run.renew)
    elif replaced and not damaged:
        rewrite_index(repository, repository.load_index(), replaced)


def _heal(run: _Repair, lost: list[LostBlock]) -> None:
    if not lost:
        return
    saved = SavedPacks(run.repository, dry_run=False)
    try:
        index = run.repository.load_index()
        run.healed_chunks = heal_blocks(run.repository, index, lost, saved)
        footers = saved.finish()
    except BaseException:
        saved.abort()
        raise
    if footers:
        run.repository.write_index(footers)
    run.repository.store.sync()


def _repair_snapshots(
    run: _Repair, known: SoundIndex, lost: set[tuple[bytes, bytes]]
) -> list[SnapshotLoss]:
    repository = run.repository
    if not run.options.dry_run:
        known = load_sound_index(repository)
    snapshots = _readable_snapshots(run)
    known.lose(lost)
    checker = PageChecker(known, lost)
    answers = _bad_pages(run, snapshots, checker)
    losses = []
    for snapshot in snapshots:
        run.renew()
        loss = find_loss(snapshot, answers)
        if not loss.row_count:
            continue
        losses.append(loss)
        text = f"{counted(loss.row_count, 'file')} without content now"
        if run.options.dry_run:
            run.act("snapshots", snapshot.id, f"{text}: to be replaced")
            continue
        index = repository.load_index()
        loss.new_id = replace_snapshot(repository, loss, checker, index, run.leases[0])
        by = f"replaced by {loss.new_id[:8]}" if loss.new_id else "nothing left: removed"
        run.act("snapshots", snapshot.id, f"{text}: {by}")
    return losses


def _readable_snapshots(run: _Repair) -> list[Snapshot]:
    snapshots = []
    # A repaired copy of one that was found false would count as sound, and be the appliance's.
    false = found_false(run.repository.store)
    for info in run.repository.store.list("snapshots"):
        if info.name in false:
            continue
        try:
            snapshots.append(run.repository.snapshot(info.name))
        except ObjectMissingError:
            # Forgotten since it was listed.
            continue
        except DamageError as error:
            run.act("snapshots", info.name, f"lost ({error}): removed")
            run.delete("snapshots", info.name)
        except Exception as error:
            # Perhaps of a later version: left alone.
            if not is_of_one_object(error):
                raise
            run.set_aside.add("snapshots", info.name, error)
    return snapshots


def _bad_pages(
    run: _Repair, snapshots: list[Snapshot], checker: PageChecker
) -> dict[ClientPage, PageAnswer]:
    """Pages that are not sound; snapshots of which one cannot be read here are dropped."""
    by_page: dict[ClientPage, list[str]] = {}
    for snapshot in snapshots:
        for reference in snapshot.pages:
            by_page.setdefault(ClientPage(snapshot.owner, reference), []).append(snapshot.id)
    unknown: set[str] = set()
    run.progress.message("checking listings")
    run.progress.total(files=sum(one.page.row_count for one in by_page))
    processes = run.options.processes or default_processes()
    bad = {}
    with ForkedMap(run.repository, checker, min(processes, len(by_page) // 4)) as pool:
        for page, answer in pool.run(by_page):
            run.renew()
            run.progress.add(files=answer.row_count)
            if answer.is_unknown:
                unknown.update(by_page[page])
            elif answer.problem or answer.rows:
                bad[page] = answer
    for name in unknown:
        run.set_aside.add("snapshots", name, "a page of its listing takes too much memory")
    snapshots[:] = [snapshot for snapshot in snapshots if snapshot.id not in unknown]
    return bad
