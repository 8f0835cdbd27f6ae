"""`vouch`: verifies what an agent uploaded before anything of it is shared or counted.

A storage daemon sees neither chunk ids nor content, so a malicious agent could claim chunks that
it never stored. So `share` takes and counts only what this job has decoded completely, with the
restore key: every chunk matches its id, every block matches its id. Other agents see none of it.
Then:

- A sound pack is marked as verified. One whose name matches its digest but whose content does
  not match its claims is *false*: it is hidden from all agents, so nothing is restored from it or
  deduplicated against it, and the agent that stored it stores the content again. One that does
  not match its name is damage of our own disk, for `check` and `repair`.
- An index object that replaces none and agrees with the footers of its packs is marked as verified
  once all its packs are. One that differs from them, or names a false pack, is false.
- Verified packs that no trusted index object names are written into a new index object of ours.
- A snapshot is verified if it decodes and its listing is sound (`walk`) by what was verified.
  One that is not sound, even counting what waits, is false: it counts for nothing, and anyone who
  maintains the repository may remove it at any age. It is judged again by every run: what it lacks
  may be lost on our own disk, and come back. While a pack is damaged, none is called false.
- An object of an unknown version, or one that takes more memory or time than there is for it, is
  set aside; one of an unknown version is false after 30 days.

Objects that appear or vanish meanwhile are left for the next run. It may run at any time, several
times at once, and may be interrupted anywhere.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import msgspec
import numpy as np

from strongroom.base.clock import SECOND_NS
from strongroom.base.decoding import reading
from strongroom.base.errors import (
    DamageError,
    MemoryLimitError,
    ObjectMissingError,
    TimeShareError,
    UnknownFormatError,
    UsageError,
)
from strongroom.base.progress import Progress
from strongroom.base.quantities import counted
from strongroom.engine.check.packs import bad_blocks
from strongroom.engine.check.verified_index import footer_summary
from strongroom.engine.check.walk import Walker
from strongroom.engine.content.digests import is_object_name, object_name
from strongroom.engine.prune.time_shares import TimeShares
from strongroom.engine.repository.block_columns import OFFERED, THINNED
from strongroom.engine.repository.index.index import Index
from strongroom.engine.repository.index.objects import IndexObject, read_index_object
from strongroom.engine.repository.packs import KIND_DATA, PackFooter, read_footer, read_owner
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.set_aside import SetAside
from strongroom.engine.repository.snapshots import Snapshot, read_snapshot
from strongroom.engine.stores.capabilities import KeepsJudgements
from strongroom.engine.stores.store import Kind, Store

# An object of an unknown version is false if no one has judged it for so long.
_UNKNOWN_DAYS: Final = 30
_DAY_NS: Final = 86400 * SECOND_NS
# Judgements of so many packs are stored together.
_PACKS_AT_ONCE: Final = 16


class VouchReport(msgspec.Struct):
    """What a run found. false_objects: (kind, name, why); damaged_objects: the same.

    set_aside: what could not be judged this time.
    """

    packs: int = 0
    index_objects: int = 0
    snapshots: int = 0
    read_bytes: int = 0
    waiting_index_objects: int = 0
    waiting_snapshots: int = 0
    false_objects: list[tuple[str, str, str]] = []
    damaged_objects: list[tuple[str, str, str]] = []
    set_aside: SetAside = msgspec.field(default_factory=SetAside)

    def summary(self) -> dict[str, Any]:
        """The fields of the JSON report (docs/reference/json-output.md)."""
        return {
            "type": "summary",
            "packs": self.packs,
            "index_objects": self.index_objects,
            "snapshots": self.snapshots,
            "waiting_index_objects": self.waiting_index_objects,
            "waiting_snapshots": self.waiting_snapshots,
            "read_bytes": self.read_bytes,
            "false_objects": len(self.false_objects),
            "damaged_objects": len(self.damaged_objects),
        }


def vouch(repository: Repository, judge: KeepsJudgements, progress: Progress) -> VouchReport:
    """Verify every unverified object. `judge`: see `required_judge`.

    Raises KeyRightError with a put key, StoreError, LeaseError.
    """
    _ = repository.restore_key
    repository = repository.for_all_clients()
    with repository.lease(socket.gethostname(), os.getpid(), "vouch") as lease:
        lease.start_renewing()
        run = _Verification(repository, judge, progress, lease.store_time_ns)
        # What they refer to was stored before them, so it is judged by then.
        snapshots = repository.store.unverified("snapshots")
        run.judge_packs()
        run.judge_index()
        run.write_index()
        run.judge_snapshots(snapshots)
        return run.report


def required_judge(store: Store) -> KeepsJudgements:
    """`store` as one that keeps judgements; UsageError when it is none."""
    judge = store.capability(KeepsJudgements)
    if judge is None:
        raise UsageError(
            "this repository has no owner list, so there is nothing to verify; name one behind a "
            "storage daemon as unix:SOCKET"
        )
    return judge


class _Verification:
    """One run; see `vouch`."""

    def __init__(
        self, repository: Repository, judge: KeepsJudgements, progress: Progress, now_ns: int
    ) -> None:
        self._repository = repository
        self._store = repository.store
        self._judge = judge
        self._progress = progress
        self._now_ns = now_ns
        self._shares = TimeShares()
        self.report = VouchReport()

    def judge_packs(self) -> None:
        """Decode every unverified pack."""
        unverified = sorted(filter(is_object_name, self._store.unverified("packs")))
        self._progress.message(f"reading {counted(len(unverified), 'pack')}")
        for start in range(0, len(unverified), _PACKS_AT_ONCE):
            sound = []
            for name in unverified[start : start + _PACKS_AT_ONCE]:
                with self._judging("packs", name), suppress(ObjectMissingError):
                    size_bytes = self._store.info("packs", name).size_bytes
                    with self._shares.spending(self._owner_of(name), size_bytes):
                        if self._is_sound(name):
                            sound.append(name)
            self._judge.vouch("packs", sound, sound=True)
            self.report.packs += len(sound)

    def judge_index(self) -> None:
        """Compare every unverified index object with the footers of its packs."""
        unknown, false = self._store.unverified("packs"), self._judge.false("packs")
        for name in sorted(filter(is_object_name, self._store.unverified("index"))):
            with self._judging("index", name):
                try:
                    found = read_index_object(self._store, self._repository.key, name, chunks=True)
                    if any(footer.pack_id.hex() in false for footer in found.footers):
                        # It would name a missing pack forever. Sound ones get another index object.
                        self._judge.vouch("index", [name], sound=False)
                        continue
                    self._require_true(found)
                except ObjectMissingError:
                    # Replaced meanwhile, or a pack of it was never stored or has gone.
                    self.report.waiting_index_objects += 1
                    continue
                if any(footer.pack_id.hex() in unknown for footer in found.footers):
                    self.report.waiting_index_objects += 1
                else:
                    self._judge.vouch("index", [name], sound=True)
                    self.report.index_objects += 1

    def write_index(self) -> None:
        """Index the trusted packs that no trusted index object names."""
        unverified = self._store.unverified("index")
        known: set[bytes] = set()
        for info in self._store.list("index"):
            if info.name in unverified:
                continue
            with self.report.set_aside.leaving_out("index", info.name):
                try:
                    an_object = read_index_object(
                        self._store, self._repository.key, info.name, chunks=False
                    )
                except ObjectMissingError:
                    continue
                known.update(footer.pack_id for footer in an_object.footers)
        unverified_packs = self._store.unverified("packs")
        footers: list[PackFooter] = []
        for info in self._store.list("packs"):
            if info.name in unverified_packs or not is_object_name(info.name):
                continue
            pack_id = bytes.fromhex(info.name)
            if pack_id not in known:
                with self.report.set_aside.leaving_out("packs", info.name):
                    try:
                        footers.append(read_footer(self._store, self._repository.key, pack_id))
                    except DamageError as error:
                        self.report.damaged_objects.append(("packs", info.name, str(error)))
        if footers:
            self._repository.write_index(footers)
            self._store.sync()

    def judge_snapshots(self, names: Collection[str]) -> None:
        """Walk snapshots."""
        self._progress.message(f"walking {counted(len(names), 'snapshot')}")
        found: list[Snapshot] = []
        for name in sorted(filter(is_object_name, names)):
            with self._judging("snapshots", name), suppress(ObjectMissingError):
                found.append(read_snapshot(self._store, self._repository.key, name))
        if not found:
            return
        key = self._repository.key
        index = Index.load(self._store, key, only_verified=True, marks=False)
        verified = Walker(self._repository, index)
        anything: Walker | None = None
        # Those of one client share pages.
        for listed in sorted(found, key=lambda one: (one.owner, one.start_ns)):
            with self._judging("snapshots", listed.id), suppress(ObjectMissingError):
                with self._shares.spending(listed.owner):
                    snapshot = self._repository.snapshot(listed.id)
                    fault = verified.walk(snapshot, self._shares.require)
                if not fault:
                    self._judge.vouch("snapshots", [snapshot.id], sound=True)
                    self.report.snapshots += 1
                    continue
                if anything is None:
                    anything = Walker(self._repository, Index.load(self._store, key, marks=False))
                with self._shares.spending(listed.owner):
                    lacks = anything.walk(snapshot, self._shares.require)
                if lacks and not self._is_disk_damaged():
                    self._judge.vouch("snapshots", [snapshot.id], sound=False)
                    self.report.false_objects.append(("snapshots", snapshot.id, fault))
                else:
                    self.report.waiting_snapshots += 1

    @contextmanager
    def _judging(self, kind: Kind, name: str) -> Iterator[None]:
        """Settles what is wrong with an object, whatever it is; the others are judged as well."""
        with self.report.set_aside.leaving_out(kind, name):
            try:
                yield
            except DamageError as error:
                self._settle_damage(kind, name, error)
            except UnknownFormatError as error:
                # Too little memory or time says nothing of the object.
                is_limit = isinstance(error, MemoryLimitError | TimeShareError)
                if is_limit or not self._is_old(kind, name):
                    raise
                self._judge.vouch(kind, [name], sound=False)
                self.report.false_objects.append((kind, name, str(error)))

    def _is_old(self, kind: Kind, name: str) -> bool:
        """Whether a later version, which would know it, had its time to judge an object."""
        age_ns = self._now_ns - self._store.info(kind, name).modified_ns
        return age_ns > _UNKNOWN_DAYS * _DAY_NS

    def _owner_of(self, name: str) -> bytes:
        """Whose a pack says it is; b"" where it says nothing."""
        try:
            return read_owner(self._store, bytes.fromhex(name))
        except (DamageError, UnknownFormatError):
            return b""

    def _is_disk_damaged(self) -> bool:
        """Whether packs that no one verified are damaged: what refers to them is not to blame."""
        return any(kind == "packs" for kind, _, _ in self.report.damaged_objects)

    def _is_sound(self, name: str) -> bool:
        """Whether a pack holds what it claims; a false one is recorded at once."""
        try:
            data = self._store.get("packs", name)
            self.report.read_bytes += len(data)
            self._progress.add(bytes=len(data))
            footer = read_footer(self._store, self._repository.key, bytes.fromhex(name))
            _require_writers_rules(footer)
            with reading(f"pack {name}"):
                bad = bad_blocks(self._repository, footer, memoryview(data))
            if bad:
                raise DamageError(f"block {bad[0][0].block_id.hex()}: {bad[0][1]}")
        except ObjectMissingError:
            return False
        return True

    def _require_true(self, found: IndexObject) -> None:
        """DamageError when an index object disagrees with the packs' footers."""
        if found.superseded:
            raise DamageError("it replaces index objects, which only the appliance does")
        for footer in found.footers:
            actual = read_footer(self._store, self._repository.key, footer.pack_id)
            if footer_summary(actual) != footer_summary(footer):
                raise DamageError(f"pack {footer.pack_id.hex()} has another footer")

    def _settle_damage(self, kind: Kind, name: str, error: DamageError) -> None:
        try:
            is_false = object_name(self._store.get(kind, name)) == name
        except DamageError:
            is_false = False
        found = (kind, name, str(error))
        if is_false:
            self._judge.vouch(kind, [name], sound=False)
            self.report.false_objects.append(found)
        else:
            self.report.damaged_objects.append(found)


def _require_writers_rules(footer: PackFooter) -> None:
    """DamageError for blocks that only the appliance writes, or that no one does."""
    flags = np.frombuffer(footer.columns.flags, np.uint8)
    if (flags & THINNED).any():
        raise DamageError("a block of it has lost chunks, which only a prune does")
    if footer.kind != KIND_DATA and (flags & OFFERED).any():
        raise DamageError("it offers listings to share, which no one does")
