"""Check a repository: every object, every reference, and if asked every stored byte.

Structure: the content of each small object has the digest in its name and decodes; each pack
exists, with the size and the footer in the index; each listing page decodes; each reference of
each row leads to a chunk, and the lengths add up. Reading data: each pack has the digest in its
name, each block opens, each chunk has the digest in its id. Nothing is changed.

A lease keeps prune from removing what is being checked; a read-only store is checked without one.

Where all blocks take more than `memory_bytes`, packs are checked against index objects one by one,
and pages in parts, each with the index of what it refers to (`index_parts`). What is found is the
same.

With `only_new`: the index, all snapshots, that each pack is there with its size, and of packs and
pages those that came since the last complete check (`verified_before`).
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterable
from contextlib import nullcontext, suppress
from functools import partial
from typing import Final, TypeAlias

import msgspec
import numpy as np

from strongroom.base import clock
from strongroom.base.decoding import reading
from strongroom.base.errors import DamageError, ObjectMissingError, StoreError
from strongroom.base.progress import NullProgress, Progress
from strongroom.base.quantities import counted
from strongroom.engine.check.damage import Finding, Findings
from strongroom.engine.check.index_parts import IndexParts, Part
from strongroom.engine.check.listed_pages import ListedPages
from strongroom.engine.check.packs import PackAnswer, PackQuestion, check_pack
from strongroom.engine.check.pages import ClientPage, PageAnswer, PageChecker
from strongroom.engine.check.verified_before import NOTHING, VerifiedBefore, verified_before
from strongroom.engine.check.verified_index import SoundIndex, VerifiedObjects
from strongroom.engine.content.digests import is_object_name, object_name
from strongroom.engine.processes.forked_map import ForkedMap, default_processes
from strongroom.engine.prune.kept_outcome import KeptOutcome, Outcome
from strongroom.engine.prune.marking import Marker
from strongroom.engine.prune.pack_usage import mark_shared
from strongroom.engine.prune.prune_options import MEMORY_BYTES
from strongroom.engine.repository.index.index import Index
from strongroom.engine.repository.index.shared_chunks import SharedChunks
from strongroom.engine.repository.keys.wrapping import wrap_info
from strongroom.engine.repository.leases import Lease, list_leases
from strongroom.engine.repository.listing.reader import require_order
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.set_aside import is_of_one_object, problem_text
from strongroom.engine.stores.capabilities import ProvesPromises, found_false

_NO_LEASE: Final = frozenset((errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOSPC, errno.EDQUOT))
_RENEWAL_SECONDS: Final = 30.0
# Fewer items than this for each process are not worth a fork.
_LEAST_ITEMS: Final = 4


class DataSubset(msgspec.Struct, frozen=True):
    """Which packs to read whole: a random share, or the number-th of several equal parts."""

    share: float = 1.0
    number: int = 1
    parts: int = 1

    def chosen(self, pack_ids: Iterable[bytes]) -> set[bytes]:
        """The packs to read."""
        mine = [
            pack_id
            for pack_id in sorted(pack_ids)
            if int.from_bytes(pack_id[:8], "big") % self.parts == self.number - 1
        ]
        if self.share >= 1:
            return set(mine)
        chance = clock.random_choices()
        return set(chance.sample(mine, min(len(mine), int(len(mine) * self.share) + 1)))


class CheckOptions(msgspec.Struct, frozen=True):
    """What to check. read_data: None: structure only. snapshot_ids: whole ids; () for all.

    only_new: leave out packs and pages that an earlier check verified. memory_bytes: for blocks at
    once.
    """

    read_data: DataSubset | None = None
    snapshot_ids: tuple[str, ...] = ()
    processes: int = 0
    only_new: bool = False
    memory_bytes: int = MEMORY_BYTES


class CheckReport(msgspec.Struct, frozen=True):
    """What was checked and what was found; `notes` are not damage.

    since_ns: when all was verified, where only what came since was checked; else 0.
    """

    snapshots: int
    pages: int
    rows: int
    packs: int
    blocks: int
    index_objects: int
    read_packs: int
    read_bytes: int
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]
    elapsed_seconds: float
    since_ns: int = 0


# Of each pack that has bad blocks their ids; None where all of its blocks are bad.
_BadBlocks: TypeAlias = "dict[bytes, frozenset[bytes] | None]"


class _Check(msgspec.Struct):
    """A check in progress."""

    repository: Repository
    options: CheckOptions
    progress: Progress
    lease: Lease | None
    before: VerifiedBefore = NOTHING
    findings: Findings = msgspec.field(default_factory=Findings)
    notes: list[str] = []
    renewed: float = 0.0
    read_packs: int = 0
    read_bytes: int = 0
    rows: int = 0


def check(repository: Repository, options: CheckOptions, progress: Progress) -> CheckReport:
    """Check a repository. KeyRightError with a put key, StoreError when the store fails."""
    started = clock.elapsed_seconds()
    _ = repository.restore_key
    repository = repository.for_all_clients()
    lease = reading_lease(repository, "check")
    run = _Check(repository, options, progress, lease)
    with lease or nullcontext():
        run.renewed = clock.elapsed_seconds()
        if lease is None:
            run.notes.append(
                "the repository is read-only or its disk full, so a prune elsewhere is not kept "
                "from removing packs"
            )
        elif (proving := repository.store.capability(ProvesPromises)) is not None:
            # Somebody may have put another server, or an older one, in its place.
            proving.prove()
        kept = KeptOutcome(repository, "check", ())
        if options.only_new:
            run.before = verified_before(repository, kept)
        listed = _listed_pages(run)
        progress.message("reading the index")
        verified = VerifiedObjects(run.before.index_names, run.before.packs.keys())
        parts = IndexParts(repository, options.memory_bytes, verified)
        known = parts.known
        _add_damaged(run, known)
        _check_keys(run)
        _check_leases(run)
        bad = _check_packs(run, parts, listed)
        pages = _check_pages(run, parts, listed, bad)
    _keep(run, kept)
    return CheckReport(
        snapshots=len(listed.snapshot_ids),
        pages=pages,
        rows=run.rows,
        packs=len(known.index.packs()),
        blocks=known.block_count,
        index_objects=len(known.object_names),
        read_packs=run.read_packs,
        read_bytes=run.read_bytes,
        findings=run.findings.report(),
        notes=tuple(run.notes),
        elapsed_seconds=clock.elapsed_seconds() - started,
        since_ns=run.before.since_ns,
    )


def _keep(run: _Check, kept: KeptOutcome) -> None:
    """Note that what was listed first was verified, if it was.

    A finding ends what was noted before: it may be of what was verified then.
    """
    if run.findings.report():
        kept.remove()
    elif not run.options.snapshot_ids and not found_false(run.repository.store):
        found_ns = run.before.since_ns or clock.now_ns()
        kept.keep_anyway(Outcome(found_ns, (), kept.listed))


def reading_lease(repository: Repository, purpose: str) -> Lease | None:
    """A lease for a job that only reads; None where nothing can be written."""
    try:
        return repository.lease(socket.gethostname(), os.getpid(), purpose)
    except StoreError as error:
        cause = error.__cause__
        if isinstance(cause, OSError) and cause.errno in _NO_LEASE:
            return None
        raise


def _renew(run: _Check) -> None:
    # Renewed by hand: no renewing thread may exist while processes are forked.
    now = clock.elapsed_seconds()
    if run.lease is not None and now - run.renewed > _RENEWAL_SECONDS:
        # A disk that is full by now is no reason to stop reading it; nothing is committed.
        with suppress(StoreError):
            run.lease.require()
        run.renewed = now


def _listed_pages(run: _Check) -> ListedPages:
    listed = ListedPages()
    wanted = set(run.options.snapshot_ids)
    false = found_false(run.repository.store)
    for info in run.repository.store.list("snapshots"):
        if wanted and info.name not in wanted:
            continue
        if info.name in false:
            run.notes.append(f"snapshot {info.name} was found false and is not checked; forget it")
            continue
        try:
            snapshot = run.repository.snapshot(info.name)
            # Also where it does not fit, so that what else is wrong is reported too.
            listed.add(snapshot)
            with reading("the list of pages"):
                require_order(snapshot.pages)
        except ObjectMissingError:
            # Forgotten since it was listed.
            continue
        except Exception as error:
            if not is_of_one_object(error):
                raise
            run.findings.add("snapshots", info.name, problem_text(error), [info.name])
    return listed


def _add_damaged(run: _Check, known: SoundIndex) -> None:
    for damaged in known.damaged:
        run.findings.add(damaged.kind, damaged.name, damaged.problem)


def _check_keys(run: _Check) -> None:
    store = run.repository.store
    for info in store.list("keys"):
        try:
            data = store.get("keys", info.name)
            if object_name(data) != info.name:
                raise DamageError("its content does not match its name")
            wrap_info(data)
        except ObjectMissingError:
            continue
        except DamageError as error:
            run.findings.add("keys", info.name, str(error))


def _check_leases(run: _Check) -> None:
    for listed in list_leases(run.repository.store, run.repository.key):
        if listed.holder is None:
            run.findings.add(
                "leases", listed.name, "it can't be read; prune waits until it has ended"
            )


def _check_packs(run: _Check, parts: IndexParts, listed: ListedPages) -> _BadBlocks:
    """Check packs; what is bad of those that are in the index."""
    known = parts.known
    present: dict[bytes, int] = {}
    for info in run.repository.store.list("packs"):
        if is_object_name(info.name):
            present[bytes.fromhex(info.name)] = info.size_bytes
        else:
            run.notes.append(f"packs/{info.name} is not a pack")
    packs = {pack.pack_id: pack for pack in known.index.packs()}
    looked_at = set(packs) | present.keys()
    looked_at -= {one for one, size in run.before.packs.items() if present.get(one) == size}
    if run.options.snapshot_ids:
        looked_at &= _needed_packs(run, parts, listed, set(packs))
    subset = run.options.read_data
    chosen = subset.chosen(looked_at & present.keys()) if subset is not None else set()
    questions = [
        # Packs not in the index are read whole: only that detects a stray copy.
        PackQuestion(
            pack_id, known.summaries.get(pack_id), pack_id in chosen or pack_id not in packs
        )
        for pack_id in sorted(looked_at)
    ]
    run.progress.message("checking packs")
    run.progress.total(bytes=sum(packs[one].size_bytes for one in chosen if one in packs))
    bad: _BadBlocks = {}
    with ForkedMap(run.repository, check_pack, _processes(run, len(questions))) as pool:
        for question, answer in pool.run(questions):
            _renew(run)
            pack = packs.get(question.pack_id)
            is_removed = answer.is_missing and (pack is None or pack.marked)
            if question.read_data:
                run.read_packs += 1
                run.read_bytes += answer.read_bytes
                run.progress.add(bytes=answer.read_bytes)
            if is_removed:
                # By a prune, since it was listed; if by somebody else, a snapshot may need it.
                run.findings.add_marked_and_missing(question.pack_id.hex())
            else:
                _take_answer(run, question, answer)
            if pack is not None and (answer.unreadable or answer.bad_blocks):
                ids = None if answer.unreadable else frozenset(answer.block_ids)
                bad[question.pack_id] = ids
    unknown = sorted(present.keys() - packs.keys())
    if unknown and not run.options.snapshot_ids:
        run.notes.append(
            f"{counted(len(unknown), 'pack')} not in an index: the next backup uses these or prune "
            "removes them"
        )
    return bad


def _lost(run: _Check, index: Index, bad: _BadBlocks) -> set[tuple[bytes, bytes]]:
    """Owners and ids of the blocks of an index of which no good copy is left."""
    bad_rows = np.zeros(len(index), np.bool_)
    for pack_id, bad_ids in bad.items():
        pack = index.pack(pack_id)
        if pack is None:
            # Replaced since it was checked.
            continue
        for row in range(pack.first_row, pack.first_row + pack.block_count):
            block_id = index.block_ids(row, 1)
            if bad_ids is None or block_id in bad_ids:
                bad_rows[row] = True
                run.findings.blame(block_id, pack_id.hex())
    return index.lost_blocks(bad_rows)


def _take_answer(run: _Check, question: PackQuestion, answer: PackAnswer) -> None:
    name = question.pack_id.hex()
    problems = list(answer.problems)
    if answer.bad_blocks:
        shown = "; ".join(f"block {number}: {text}" for number, text in answer.bad_blocks[:3])
        more = len(answer.bad_blocks) - 3
        problems.append(shown + (f"; and {more} more blocks" if more > 0 else ""))
    if problems:
        run.findings.add("packs", name, "; ".join(problems))


def _needed_packs(
    run: _Check, parts: IndexParts, listed: ListedPages, packs: set[bytes]
) -> set[bytes]:
    """The packs that the snapshots use; all of them if damage hides which."""
    needed: set[bytes] = set()
    try:
        for part in parts.of_pages(listed.pages(), partial(_renew, run)):
            needed |= _packs_used(run.repository, part, listed)
            del part
    except Exception as error:
        if not is_of_one_object(error):
            raise
        return packs
    return needed


def _packs_used(repository: Repository, part: Part, listed: ListedPages) -> set[bytes]:
    """The packs of the blocks of a part that snapshots use."""
    marker = Marker(repository, NullProgress(), part.ids)
    index = part.known.index
    marker.mark(listed.snapshot_ids, index, part.listings)
    # Also what clients have left to shared packs, which may be among the missing ones.
    shared = SharedChunks.load(repository.store, repository.key, index, marked=True)
    mark_shared(repository, index, marker.live, shared)
    return {
        pack.pack_id
        for pack in index.packs()
        if marker.live.uses(
            index.block_ids(pack.first_row, pack.block_count), index.owners[pack.owner]
        ).any()
    }


def _check_pages(run: _Check, parts: IndexParts, listed: ListedPages, bad: _BadBlocks) -> int:
    """Check the pages of snapshots, each once; how many there are."""
    # Where anything is missing or damaged, all pages say which files need it.
    leaves_out = run.before.is_whole and not bad and not run.findings.report()
    pages = listed.pages(run.before.snapshots if leaves_out else ())
    run.progress.message("checking listings")
    run.progress.total(files=sum(one.page.row_count for one in pages))
    for part in parts.of_pages(pages, partial(_renew, run)):
        _add_damaged(run, part.known)
        for one, answer in part.unreadable:
            _take_page(run, listed, one, answer)
        lost = _lost(run, part.known.index, bad)
        part.known.lose(lost)
        checker = PageChecker(part.known, lost, part.listings)
        with ForkedMap(run.repository, checker, _processes(run, len(part.pages))) as pool:
            for one, answer in pool.run(part.pages):
                _renew(run)
                _take_page(run, listed, one, answer)
        # Before the next one is read.
        del part, checker, pool
    return len(pages)


def _take_page(run: _Check, listed: ListedPages, page: ClientPage, answer: PageAnswer) -> None:
    run.rows += answer.row_count
    run.progress.add(files=answer.row_count)
    if not (answer.problem or answer.rows):
        return
    uses = listed.uses(page)
    if answer.problem:
        for use in uses:
            run.findings.add_page(use.snapshot_id, page.page, use.after, answer.problem)
    for row in answer.rows:
        run.findings.add_row(row, [use.snapshot_id for use in uses])


def _processes(run: _Check, items: int) -> int:
    wanted = run.options.processes or default_processes()
    return max(1, min(wanted, items // _LEAST_ITEMS))
