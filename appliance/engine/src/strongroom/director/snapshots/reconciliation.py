"""Reconciles the catalog with repositories: marks removed snapshots, adds new ones.

Repositories are changed by others too: `forget` at the socket of the storage daemon, another
console, a local backup. A snapshot in the catalog that the repository does not have is marked as
removed; if it comes back (a disk was not mounted), it is unmarked. A snapshot that the catalog does
not have is added; with an empty catalog that rebuilds it.

Everything that a restore needs is in the repository: snapshots contain their client (its name,
which anyone who opens one compares with its id, and its generation), job, FileSet, level and times,
and in their tags the run and the pool. What is only in the catalog (failed runs, logs, tokens, the
audit log) can only be restored from a backup of the catalog.

A snapshot that an agent stored, as the storage daemon knows, is added, except in a requested
rebuild, only one for each run, which carries that run's tag: the one that the run's agent reported,
or one of a run that was given up (`late_snapshots`). Else an agent could make retention remove its
own machine's old snapshots by storing new ones. Snapshots that the appliance stored, or that have
no known owner, are trusted, as are all in a plain folder; but impossible totals are refused
everywhere. Snapshots of an active run are left to that run. New ones are walked, and false ones are
marked as such (`verdicts`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import msgspec

from strongroom.base import clock
from strongroom.base.quantities import counted
from strongroom.director.catalog.access import add_audit
from strongroom.director.catalog.clients import note_generation
from strongroom.director.catalog.late_snapshots import why_not_late
from strongroom.director.catalog.runs import unfinished_runs
from strongroom.director.catalog.snapshots import (
    KnownSnapshot,
    known_snapshots,
    note_false,
    note_removed,
    note_returned,
    usual_snapshots,
)
from strongroom.director.catalog.tables import GONE
from strongroom.director.context import DirectorContext
from strongroom.director.results.access import Actor
from strongroom.director.results.runs import Run
from strongroom.director.results.snapshots import Snapshot
from strongroom.director.shown_text import shown
from strongroom.director.snapshots.confirmation import (
    false_total,
    fault_of,
    is_count,
    received_at,
    record_of,
    run_tag,
    start_of,
)
from strongroom.director.snapshots.entering import (
    batches,
    enter,
    enter_late,
    is_of_lost_run,
    new_record,
    run_of,
)
from strongroom.director.snapshots.verdicts import changed_verdicts, walked
from strongroom.engine.repository.set_aside import SetAside
from strongroom.engine.repository.snapshots import Snapshot as StoredSnapshot
from strongroom.engine.repository.snapshots import list_snapshots
from strongroom.engine.stores.capabilities import stored_by_agents

_MOST_NAMED: Final = 20


_log = logging.getLogger(__name__)


class Reconciled(msgspec.Struct, frozen=True):
    """Ids of snapshots: marked as gone, back again, added; and refused, with the reason.

    verdicts: what was found to be wrong with snapshots, "" for those found sound after all.
    unknown: those of the refused that name a run that the catalog does not know, and when they were
    made: the catalog may be an old copy. there: all in the repository. unread: those of the refused
    that could not be read, perhaps only this time.
    """

    gone: tuple[str, ...] = ()
    returned: tuple[str, ...] = ()
    entered: tuple[str, ...] = ()
    refused: dict[str, str] = {}
    verdicts: dict[str, str] = {}
    unknown: dict[str, int] = {}
    there: frozenset[str] = frozenset()
    unread: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.gone or self.returned or self.entered or self.refused or self.verdicts)

    def lines(self) -> list[tuple[str, str]]:
        """For the log of a run; nothing where catalog and repository agreed."""
        found = []
        false = tuple(name for name, fault in self.verdicts.items() if fault)
        sound = tuple(name for name, fault in self.verdicts.items() if not fault)
        for level, ids, text in (
            ("warning", self.gone, f"{counted(len(self.gone), 'snapshot')} {GONE}"),
            ("info", self.returned, f"{counted(len(self.returned), 'snapshot')} found again"),
            ("info", self.entered, f"{counted(len(self.entered), 'snapshot')} added"),
            ("warning", tuple(self.refused), f"{counted(len(self.refused), 'snapshot')} not added"),
            ("warning", false, f"{counted(len(false), 'snapshot')} false and not used"),
            ("info", sound, f"{counted(len(sound), 'snapshot')} no longer marked as false"),
        ):
            if ids:
                more = ", ..." if len(ids) > _MOST_NAMED else ""
                named = ", ".join(one[:8] for one in ids[:_MOST_NAMED])
                found.append((level, f"{text}: {named}{more}"))
        return found


class Reconciler:
    """Reconciles periodically; logs each refused snapshot only once."""

    def __init__(self, context: DirectorContext) -> None:
        self._context = context
        self._refused: set[str] = set()
        self._unknown: dict[str, dict[str, int]] = {}

    def reconcile(self, storage: str) -> Reconciled:
        """Compare catalog and repository of a storage. Blocks; raises what opening does."""
        result = reconcile(self._context, storage, leave_out=self._refused)
        self._refused.update(result.refused.keys() - result.unread)
        known = known_snapshots(self._context.catalog)
        unknown = {
            name: made_ns
            for name, made_ns in {**self._unknown.get(storage, {}), **result.unknown}.items()
            if name in result.there and name not in known
        }
        self._unknown[storage] = unknown
        return msgspec.structs.replace(result, unknown=unknown)


def reconcile(
    context: DirectorContext, storage: str, *, rebuilds: bool = False, leave_out: Iterable[str] = ()
) -> Reconciled:
    """Compare catalog and repositories; changes are in the log and in the audit log. Blocks.

    rebuilds: snapshots that agents stored without a run are trusted too. Snapshots that were
    forgotten stay so in the catalog.
    """
    # Before the repository is listed, so that snapshots stored meanwhile do not count as gone.
    known = known_snapshots(context.catalog)
    mine = {name: one for name, one in known.items() if one.storage == storage}
    repository = context.repositories.open(storage)
    try:
        packs = repository.store.list("packs")
        context.repository_bytes[storage] = sum(info.size_bytes for info in packs)
        names = {info.name: info.modified_ns for info in repository.store.list("snapshots")}
        gone = [name for name, one in mine.items() if not one.removed_ns and name not in names]
        returned = [n for n, one in mine.items() if one.removed_reason == GONE and n in names]
        for ids in batches(gone):
            note_removed(context.catalog, ids, clock.now_ns(), GONE)
        for ids in batches(returned):
            note_returned(context.catalog, ids, GONE)
        found: list[StoredSnapshot] = []
        refused: dict[str, str] = {}
        unread = SetAside()
        unknown: dict[str, int] = {}
        records: list[Snapshot] = []
        lates: list[Snapshot] = []
        if not names.keys() <= known.keys() | set(leave_out):
            leave_out = known.keys() | set(leave_out)
            found = list_snapshots(
                repository.store, repository.key, leave_out, unread, as_written=True
            )
            refused = _impossible(found)
            refused |= {name: problem for (_, name), problem in unread.problems.items()}
            owned = frozenset() if rebuilds else stored_by_agents(repository.store)
            busy = frozenset() if rebuilds else _under_way(context, storage, found)
            for one in found:
                if one.id in refused or one.id in busy:
                    continue
                if one.id not in owned:
                    records.append(new_record(context, repository, storage, one))
                elif isinstance(late := _late(context, storage, one, names[one.id]), str):
                    refused[one.id] = late
                    if is_of_lost_run(context, one):
                        unknown[one.id] = names[one.id]
                else:
                    lates.append(late)
            records = [_marked(context, records, one) for one in records]
            records, failed = walked(context, storage, records)
            lates, failed_lates = walked(context, storage, lates)
            refused |= failed | failed_lates
        verdicts = changed_verdicts(context, repository, storage, mine, names, anew=rebuilds)
    finally:
        repository.close()
    note_false(context.catalog, verdicts)
    unfit = {**enter(context, records), **enter_late(context, lates)}
    records += lates
    entered = tuple(record.id for record in records if record.id not in unfit)
    _note_generations(context, [one for one in found if one.id in entered])
    verdicts |= {one.id: one.false_reason for one in records if one.false_reason}
    result = Reconciled(
        tuple(gone),
        tuple(returned),
        entered,
        {**refused, **unfit},
        verdicts,
        unknown,
        frozenset(names),
        frozenset(unread.names("snapshots")),
    )
    _tell(context, storage, result, mine)
    return result


def _marked(context: DirectorContext, found: list[Snapshot], record: Snapshot) -> Snapshot:
    """An empty one after others that were not: it displaces none, as when its run ended."""
    if record.files or record.original or record.missing_paths:
        return record
    of = (record.client, record.job)
    before = [one for one in found if one.server_ns < record.server_ns and not one.original]
    had_files = any(one.files for one in before if (one.client, one.job) == of)
    if had_files or any(one.files for one in usual_snapshots(context.catalog, record)):
        return replace(record, missing_paths=1)
    return record


def _impossible(found: list[StoredSnapshot]) -> dict[str, str]:
    """Snapshots that are entered by no one's order, and why."""
    faults = {one.id: false_total(one) or _false_time(one) for one in found}
    return {name: fault for name, fault in faults.items() if fault}


def _note_generations(context: DirectorContext, entered: list[StoredSnapshot]) -> None:
    newest: dict[str, int] = {}
    for one in entered:
        # A client of the source of a copy may have become a new one there, not here.
        if one.generation and not one.original:
            newest[one.host] = max(newest.get(one.host, 0), one.generation)
    for name, generation in newest.items():
        note_generation(context.catalog, name, generation)


def _late(
    context: DirectorContext, storage: str, snapshot: StoredSnapshot, stored_ns: int
) -> Snapshot | str:
    """A snapshot that an agent stored, if its run has ended and may have it; else why not."""
    run = run_of(context, snapshot)
    if run is None or run.storage != storage:
        return f"{snapshot.host} stored it, but no run of its own made it there"
    if fault := fault_of(snapshot, run) or why_not_late(run, snapshot.id):
        return f"{snapshot.host} stored it, and {fault}"
    return record_of(snapshot, run, start_of(snapshot, run), received_at(snapshot, stored_ns))


def _false_time(snapshot: StoredSnapshot) -> str:
    is_time = is_count(snapshot.start_ns) and is_count(snapshot.server_ns or snapshot.end_ns)
    return "" if is_time else "has an impossible time"


def _under_way(
    context: DirectorContext, storage: str, found: list[StoredSnapshot]
) -> frozenset[str]:
    """Snapshots of runs that will add them themselves."""
    runs = unfinished_runs(context.catalog)
    ids = {run.id for run in runs}
    copies = any(_may_copy_to(context, run, storage) for run in runs)
    return frozenset(one.id for one in found if (copies if one.original else run_tag(one) in ids))


def _may_copy_to(context: DirectorContext, run: Run, storage: str) -> bool:
    """Whether a run may be making copies in a storage; one that waits to be tried again is not."""
    if (run.kind, run.state) != ("copy", "running"):
        return False
    job = context.configuration.jobs.get(run.job)
    target = context.configuration.copy_target(run.pool) if job and job.is_of_pool else None
    return target is None or target.storage == storage


def _log_each(storage: str, names: Iterable[str], texts: Sequence[str]) -> None:
    """A line for each of the first snapshots, and how many more there are."""
    for name, text in list(zip(names, texts, strict=True))[:_MOST_NAMED]:
        _log.warning("snapshot %s of %s %s", name, storage, text)
    if (more := len(texts) - _MOST_NAMED) > 0:
        _log.warning("%d more snapshots of %s: %s", more, storage, shown(texts[-1]))


def _tell(
    context: DirectorContext, storage: str, result: Reconciled, known: Mapping[str, KnownSnapshot]
) -> None:
    gone = [f"({known[name].job} of {known[name].client}) is {GONE}" for name in result.gone]
    _log_each(storage, result.gone, gone)
    _log_each(storage, result.returned, ["is in its repository again" for _ in result.returned])
    verdicts = result.verdicts.values()
    _log_each(
        storage,
        result.verdicts,
        [f"is false: {shown(fault)}" if fault else "is sound after all" for fault in verdicts],
    )
    refused = [f"is not entered: {why}" for why in result.refused.values()]
    _log_each(storage, result.refused, refused)
    counts = (
        (len(result.gone), "gone"),
        (len(result.returned), "there again"),
        (len(result.entered), "entered"),
        (sum(map(bool, result.verdicts.values())), "false"),
    )
    if changes := ", ".join(f"{count} {what}" for count, what in counts if count):
        actor = Actor(context.name, "director")
        add_audit(context.catalog, actor, "reconcile", storage, changes)
