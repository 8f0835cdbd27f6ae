"""Decides which runs may start now, and which are superfluous; without side effects.

A lower number starts first. Priorities are compared only between runs that meet: of the same
client, or of the same storage where one of them is its housekeeping. While one runs, those that
meet it and have another number wait for its end, unless all of them allow mixed priorities. A run
that is held back also holds back those of higher numbers that meet it, or it might never start.

What follows from the Copy To of a Pool is in the background: it counts for its own job alone, so
that a copy of days holds back no backup. A restore waits for no priority, and nothing waits for
its. Nor does anything wait for the priority of a run that is idle, because it makes no progress or
its agent is unreachable. While its agent is unreachable it counts for its job and client alone.

Of the runs that schedules have started, only the newest of a job waits, so that a client that was
offline for weeks makes one backup and not one for each night. It has the highest level of those
that it replaces. For the rest as in Bareos: with Allow Duplicate Jobs both continue. Otherwise, of
two backups: with Cancel Lower Level Duplicates the one of the lower level ends, whichever it is.
Then Cancel Queued Duplicates ends an older one that waits, Cancel Running Duplicates one that runs.
If none applies the new one ends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Self

from msgspec import structs

from strongroom.config.settings.configuration import DirectorConfiguration
from strongroom.config.settings.job import DuplicateRules
from strongroom.director.results.runs import Run
from strongroom.director.runs.requests import RunRequest

_RANK: Final = {"incremental": 1, "differential": 2, "full": 3}
# The error id of a run that waited and was replaced by the next of its schedule.
REPLACED_ID: Final = "replaced"
# The beginnings of `requested_by` that are no person's; the second is of a job's Run directive.
_UNATTENDED: Final = ("schedule ", "run ")


@dataclass(frozen=True, slots=True)
class Contender:
    """A run as limits see it. client, storage: "" where it uses none. reads: from the storage.

    about: its client also where the director does it. has_priority: see the module, as for the
    others.
    """

    id: str
    job: str
    client: str
    storage: str
    priority: int
    reads: bool = False
    allows_mixed: bool = False
    about: str = ""
    has_priority: bool = True
    is_housekeeping: bool = False
    is_idle: bool = False
    is_lost: bool = False
    is_background: bool = False

    def meets(self, other: Contender) -> bool:
        """Whether their priorities are compared."""
        if not (self.has_priority and other.has_priority):
            return False
        if (self.about or self.client) and (self.about or self.client) == (
            other.about or other.client
        ):
            return True
        return bool(self.storage and self.storage == other.storage) and (
            self.is_housekeeping or other.is_housekeeping
        )


@dataclass(frozen=True, slots=True)
class ConcurrencyLimits:
    """How many runs may be under way at once, by name; what is not named has no limit.

    storage_reads: of runs that read; 0 is no limit of its own.
    """

    director: int
    clients: Mapping[str, int] = field(default_factory=dict)
    storages: Mapping[str, int] = field(default_factory=dict)
    storage_reads: Mapping[str, int] = field(default_factory=dict)
    jobs: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, configuration: DirectorConfiguration) -> Self:
        """Those that the configuration sets."""
        return cls(
            director=configuration.director.maximum_concurrent_jobs,
            clients={
                name: client.maximum_concurrent_jobs
                for name, client in configuration.clients.items()
            },
            storages={
                name: storage.maximum_concurrent_jobs
                for name, storage in configuration.storages.items()
            },
            storage_reads={
                name: storage.maximum_concurrent_read_jobs
                for name, storage in configuration.storages.items()
            },
            jobs={name: job.maximum_concurrent_jobs for name, job in configuration.jobs.items()},
        )


@dataclass(frozen=True, slots=True)
class Decision:
    """Ids to start, in order, and for each other run why it waits."""

    start: tuple[str, ...]
    reasons: Mapping[str, str]


def choose(
    waiting: Sequence[Contender], running: Iterable[Contender], limits: ConcurrencyLimits
) -> Decision:
    """Decide. `waiting`: what could start now, the longest waiting first."""
    occupied = list(running)
    use = _Use(occupied)
    start: list[str] = []
    reasons: dict[str, str] = {}
    held_back: list[Contender] = []
    for contender in sorted(waiting, key=lambda one: one.priority):
        reason = _reason(contender, occupied, held_back) or use.reason(contender, limits)
        if reason:
            reasons[contender.id] = reason
            held_back.append(contender)
            continue
        start.append(contender.id)
        occupied.append(contender)
        use.add(contender)
    return Decision(tuple(start), reasons)


def _reason(
    contender: Contender, occupied: Sequence[Contender], held_back: Sequence[Contender]
) -> str:
    for other in held_back:
        if other.priority < contender.priority and other.meets(contender):
            return f"waits behind {_named(other)}"
    met = [one for one in occupied if not (one.is_idle or one.is_lost) and one.meets(contender)]
    if not met:
        return ""
    first = min(met, key=lambda one: one.priority)
    if contender.priority > first.priority:
        return f"waits for {_named(first)} to end"
    last = max(met, key=lambda one: one.priority)
    mixes = contender.allows_mixed and all(one.allows_mixed for one in met)
    if contender.priority < last.priority and not mixes:
        return f"waits for {_named(last)} to end (Allow Mixed Priority is not set)"
    return ""


def _named(one: Contender) -> str:
    # Its job may be one that anyone who reads the reason may not see.
    return f"run {one.id[:8]}, which has priority {one.priority}"


class _Use:
    """How much of each limit is used."""

    def __init__(self, occupied: Iterable[Contender]) -> None:
        self._all = 0
        self._clients: Counter[str] = Counter()
        self._storages: Counter[str] = Counter()
        self._reads: Counter[str] = Counter()
        self._jobs: Counter[str] = Counter()
        for one in occupied:
            self.add(one)

    def add(self, one: Contender) -> None:
        self._jobs[one.job] += 1
        if one.client:
            self._clients[one.client] += 1
        if one.is_lost or one.is_background:
            return
        self._all += 1
        if one.storage:
            self._storages[one.storage] += 1
            self._reads[one.storage] += one.reads

    def reason(self, one: Contender, limits: ConcurrencyLimits) -> str:
        if self._all >= limits.director and not one.is_background:
            return f"the director runs {self._all} of at most {limits.director} jobs"
        for what, name, used, most in (
            ("job", one.job, self._jobs, limits.jobs),
            ("client", one.client, self._clients, limits.clients),
            ("storage", one.storage, self._storages, limits.storages),
        ):
            if name in most and used[name] >= most[name]:
                return f"{what} {name} has {used[name]} of at most {most[name]} runs"
        reads = limits.storage_reads.get(one.storage, 0)
        if one.reads and reads and self._reads[one.storage] >= reads:
            return f"storage {one.storage} has {reads} of at most {reads} runs that read"
        return ""


@dataclass(frozen=True, slots=True)
class DuplicateRuling:
    """Older runs to cancel, by id and why; `refusal`: why the new one ends instead, or ""."""

    cancelled: tuple[tuple[str, str], ...] = ()
    refusal: str = ""


def judge(new: Run, others: Iterable[Run], rules: DuplicateRules) -> DuplicateRuling:
    """Compare `new` with runs that have not ended, those that `replaced` found left out."""
    cancelled: list[tuple[str, str]] = []
    if rules.allow:
        return DuplicateRuling()
    for old in others:
        if (old.job, old.client, old.kind) != (new.job, new.client, new.kind):
            continue
        new_rank, old_rank = _RANK.get(new.level, 0), _RANK.get(old.level, 0)
        if rules.cancel_lower_level and new_rank < old_rank:
            return DuplicateRuling(
                (), f"run {old.id} of the job, which is {old.level}, has not ended"
            )
        why = f"run {new.id} of the same job replaces it"
        lower = rules.cancel_lower_level and new_rank > old_rank
        cancels = rules.cancel_running if old.state == "running" else rules.cancel_queued
        if not lower and not cancels:
            return DuplicateRuling(
                (), f"run {old.id} of the job has not ended; duplicates are not allowed"
            )
        cancelled.append((old.id, why))
    return DuplicateRuling(tuple(cancelled))


def replaced(new: Run, others: Iterable[Run]) -> list[Run]:
    """The waiting runs that a new run makes superfluous; none for another attempt."""
    if new.attempt > 1 or not new.requested_by.startswith(_UNATTENDED):
        return []
    return [
        old
        for old in others
        if (old.job, old.client, old.kind) == (new.job, new.client, new.kind)
        and old.state in ("queued", "waiting")
        and old.requested_by.startswith(_UNATTENDED)
    ]


def with_highest_level(new: Run, old_runs: Iterable[Run]) -> Run:
    """The new run with the level of the highest of those that it replaces, and what goes with it.

    A weekly full backup must not be lost to the incremental one of the next night.
    """
    highest = max((new, *old_runs), key=_planned_rank)
    if _planned_rank(highest) == _planned_rank(new):
        return new
    wanted = RunRequest.of(highest)
    own = RunRequest.of(new)
    request = structs.replace(
        wanted,
        deadline_bounds_end=own.deadline_bounds_end,
        companion_depth=own.companion_depth,
    )
    return replace(
        new,
        level=wanted.level or highest.level,
        pool=highest.pool,
        storage=highest.storage,
        fileset=highest.fileset,
        request=request.stored(),
    )


def _planned_rank(record: Run) -> int:
    return _RANK.get(RunRequest.of(record).level or record.level, 0)
