"""The in-memory state of runs that have not ended, and their limits; the catalog has the rest.

Durations are measured by a monotonic clock, so a jump of the wall clock neither ends a run nor
keeps one alive.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.base.quantities import lowest_limit
from strongroom.config.settings.configuration import DirectorConfiguration
from strongroom.config.settings.job import JobSettings
from strongroom.director.results.runs import Run
from strongroom.director.runs.agent_limits import AgentLog
from strongroom.director.runs.dispatch import Contender
from strongroom.director.runs.requests import RunRequest
from strongroom.net.control.messages import RunProgress

# A run that makes no progress for so long holds up no others.
IDLE_SECONDS: Final = 3600.0
# How long a run continues without a connection to its agent; Max Wait Time of the job wins.
LOST_SECONDS: Final = 6 * 3600
# How long a run without its own limit may make no progress; Max Wait Time of the job wins. The
# longest that is known without any is a script that dumps a large database.
STALLED_SECONDS: Final = 24 * 3600
LOST_ID: Final = "agent-lost"
# Kinds that agents execute; the director executes the others itself.
_AGENT_KINDS: Final = frozenset(("backup", "restore", "estimate"))


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ends: its state and error, and why.

    changes: other columns of the catalog. lines: level and text of further lines of its log.
    is_reported: by its agent.
    """

    state: str
    reason: str = ""
    error_id: str = ""
    changes: Mapping[str, Any] = field(default_factory=dict)
    lines: tuple[tuple[str, str], ...] = ()
    is_reported: bool = False


@dataclass(frozen=True, slots=True)
class StoredTicket:
    """The ticket of a run: the Storage of its repository, and the name of the object."""

    storage: str
    name: str


@dataclass(eq=False, slots=True)
class ActiveRun:
    """A run that has not ended. Times without a unit in their name are of clock.elapsed_seconds.

    begins_at: not before then. begun_at: when it began. deadline: from when it was scheduled.
    task: what the director does for it now. ending: it was stopped; it ends at `stop_at`
    whether or not the agent answers. is_prepared: its scripts before ran. is_sent: the agent
    has, or may have, its start message. lost_at: when its agent's connection was lost. tickets:
    stored for its start messages, and removed when it ends. agent_log: what of the agent's log is
    kept. moved_at: when its agent reported progress last.
    """

    record: Run
    begins_at: float = 0.0
    begun_at: float = 0.0
    deadline: float | None = None
    ends_at: float | None = None
    ending: Ending | None = None
    stop_at: float = 0.0
    lost_at: float | None = None
    moved_at: float = 0.0
    progress: RunProgress | None = None
    task: asyncio.Task[None] | None = None
    is_prepared: bool = False
    is_sent: bool = False
    tickets: list[StoredTicket] = field(default_factory=list)
    agent_log: AgentLog = field(default_factory=AgentLog)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def is_remote(self) -> bool:
        """Whether an agent does it."""
        return needs_agent(self.record)

    @property
    def is_running(self) -> bool:
        """Whether it has begun."""
        return self.record.state == "running"

    def idle_seconds(self, now: float) -> float:
        """For how long its agent has reported no progress; 0 where the director does it."""
        if not (self.is_running and self.is_remote):
            return 0.0
        return now - max(self.moved_at, self.begun_at)

    def found_again(self) -> None:
        """Its agent is connected; the time without it was no time without progress."""
        if self.lost_at is not None:
            away = clock.elapsed_seconds() - self.lost_at
            self.moved_at = max(self.moved_at, self.begun_at) + away
            self.lost_at = None

    def take_progress(self, progress: RunProgress) -> None:
        """Note counts that its agent reports."""
        before = self.progress
        counts = ("files", "bytes", "stored_bytes", "errors", "message")
        if before is None or any(getattr(before, one) != getattr(progress, one) for one in counts):
            self.moved_at = clock.elapsed_seconds()
        self.progress = progress

    def contender(self, job: JobSettings | None) -> Contender:
        """The run as limits count it."""
        record = self.record
        is_background = job is not None and job.is_of_pool
        return Contender(
            id=record.id,
            job=record.job,
            client=record.client if self.is_remote else "",
            storage="" if is_background else record.storage,
            priority=record.priority,
            reads=record.kind in ("restore", "verify"),
            allows_mixed=job is not None and job.allow_mixed_priority,
            about=record.client,
            has_priority=record.kind not in ("restore", "estimate"),
            is_housekeeping=record.kind == "admin",
            is_idle=self.idle_seconds(clock.elapsed_seconds()) >= IDLE_SECONDS,
            is_lost=self.lost_at is not None,
            is_background=is_background,
        )

    def info(self) -> Run:
        """The run as results show it, with the counts that were reported last."""
        ending = self.ending.state if self.ending is not None and self.is_running else ""
        progress = self.progress
        if progress is None:
            return replace(self.record, ending=ending)
        return replace(
            self.record,
            files=progress.files,
            bytes=progress.bytes,
            stored_bytes=progress.stored_bytes,
            errors=progress.errors,
            total_files=progress.total_files,
            total_bytes=progress.total_bytes,
            total_is_estimate=progress.total_is_estimate
            and (progress.total_files, progress.total_bytes) != (None, None),
            message=progress.message,
            ending=ending,
        )


class ActiveRuns:
    """The runs that have not ended, the longest known first. For one event loop."""

    def __init__(self) -> None:
        self._by_id: dict[str, ActiveRun] = {}

    def get(self, run_id: str) -> ActiveRun | None:
        """A run that has not ended."""
        return self._by_id.get(run_id)

    def all(self) -> list[ActiveRun]:
        """Every one."""
        return list(self._by_id.values())

    def records(self) -> list[Run]:
        """What the catalog has of each."""
        return [one.record for one in self._by_id.values()]

    def of_client(self, client: str) -> list[ActiveRun]:
        """Those that an agent executes or will."""
        return [one for one in self.all() if one.is_remote and one.record.client == client]

    def add(self, record: Run) -> ActiveRun:
        """A run begins to be active, with its times as of now."""
        active = self._by_id[record.id] = activate(record)
        return active

    def remove(self, run_id: str) -> bool:
        """A run has ended; returns whether it was active."""
        return self._by_id.pop(run_id, None) is not None


class Alarm:
    """Wakes the scheduler, at once or in time for a moment of clock.elapsed_seconds."""

    def __init__(self) -> None:
        self._rung = asyncio.Event()
        self._wakes_at = 0.0

    def ring(self) -> None:
        """Wake it now."""
        self._rung.set()

    def ring_by(self, moment: float) -> None:
        """Wake it now, if it would sleep past this moment: it then looks how long it may sleep."""
        if moment < self._wakes_at:
            self.ring()

    def reset(self) -> None:
        """What rings from now on ends the next sleep."""
        self._rung.clear()

    async def wait(self, seconds: float) -> None:
        """Sleep for so long, or until it rings."""
        self._wakes_at = clock.elapsed_seconds() + seconds
        with suppress(TimeoutError):
            await asyncio.wait_for(self._rung.wait(), seconds)


def needs_agent(record: Run) -> bool:
    """Whether an agent does this run."""
    return record.kind in _AGENT_KINDS or (record.kind == "verify" and record.level == "client")


def activate(record: Run) -> ActiveRun:
    """A run from the catalog with its times as of now."""
    now_ns, now = clock.now_ns(), clock.elapsed_seconds()

    def moment(time_ns: int) -> float:
        return now + (time_ns - now_ns) / SECOND_NS

    return ActiveRun(
        record=record,
        begun_at=min(now, moment(record.started_ns)) if record.started_ns else now,
        begins_at=moment(record.not_before_ns) if record.not_before_ns else now,
        deadline=moment(record.deadline_ns) if record.deadline_ns else None,
        is_sent=record.sequence > 0,
    )


class Watchers:
    """Notifies watchers of runs; each then reads what is new itself. For one event loop.

    Events are not queued, so a slow watcher costs nothing and misses no line of a log.
    """

    def __init__(self) -> None:
        self._by_run: dict[str, set[asyncio.Event]] = {}

    @contextmanager
    def watching(self, run_id: str) -> Iterator[asyncio.Event]:
        """An event that is set when the run has changed."""
        event = asyncio.Event()
        self._by_run.setdefault(run_id, set()).add(event)
        try:
            yield event
        finally:
            events = self._by_run[run_id]
            events.discard(event)
            if not events:
                del self._by_run[run_id]

    def wake(self, run_id: str) -> None:
        """The run has changed."""
        for event in self._by_run.get(run_id, ()):
            event.set()


class RunControl(Protocol):
    """What own jobs and the aftermath may do with runs; `lifecycle.Runs` is one."""

    @property
    def watchers(self) -> Watchers:
        """Watchers of runs."""

    async def say(self, active: ActiveRun, level: str, text: str) -> None:
        """Add a line to the log of a run."""

    async def submit(self, record: Run, lines: Sequence[str] = ()) -> Run:
        """Add a run."""

    def spawn(self, activity: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start an activity; it is waited for when the director stops."""


def limit(active: ActiveRun, job: JobSettings | None, longest_seconds: int) -> None:
    """Set when a run is ended at the latest; its level may have changed.

    longest_seconds: of any run, 0 for no limit.
    """
    own = job.longest_run_seconds(active.record.level) if job is not None else 0
    shortest = lowest_limit(own, longest_seconds)
    active.ends_at = active.begun_at + shortest if shortest else None


def orphaned(active: ActiveRun, configuration: DirectorConfiguration) -> Ending | None:
    """How a run ends whose client or job was removed or disabled: it would wait forever."""
    record = active.record
    if active.is_remote and record.client not in configuration.clients:
        return Ending("cancelled", f"client {record.client} was removed")
    client = configuration.clients.get(record.client)
    if client is not None and not client.enabled and not active.is_running:
        return Ending("cancelled", f"client {record.client} is disabled")
    # A restore needs no job, and what runs is not disturbed.
    is_waiting = not active.is_running and record.kind != "restore"
    if is_waiting and record.job not in configuration.jobs:
        return Ending("cancelled", f"job {record.job} was removed")
    return None


def overdue(active: ActiveRun, job: JobSettings | None, now: float) -> Ending | None:
    """How it must end because of a time limit; None as long as it may continue."""
    if not active.is_running:
        if active.deadline is not None and now >= active.deadline:
            return Ending("cancelled", "it could not start in time", "time-limit")
        return None
    if active.deadline is not None and now >= active.deadline and _bounds_end(active.record):
        return Ending("failed", "Max Run Sched Time is over", "time-limit")
    if active.ends_at is not None and now >= active.ends_at:
        return Ending("failed", "it exceeded its time limit", "time-limit")
    patience = job.max_wait_time_seconds if job is not None else 0
    if active.lost_at is not None:
        if now - active.lost_at >= (patience or LOST_SECONDS):
            reason = f"agent {active.record.client} did not reconnect in time"
            return Ending("failed", reason, LOST_ID)
    else:
        longest_idle = patience or (0 if active.ends_at else STALLED_SECONDS)
        if longest_idle and active.idle_seconds(now) >= longest_idle:
            reason = f"it made no progress within Max Wait Time, {longest_idle / 3600:.3g} h"
            return Ending("failed", reason, "time-limit")
    return None


def next_moment(runs: Iterable[ActiveRun]) -> float | None:
    """When the limits must be checked again at the latest, by clock.elapsed_seconds."""
    moments: list[float] = []
    for active in runs:
        if active.is_running:
            moments += [one for one in (active.ends_at, active.deadline) if one is not None]
            if active.ending is not None:
                moments.append(active.stop_at)
        else:
            moments.append(active.begins_at)
            if active.deadline is not None:
                moments.append(active.deadline)
    now = clock.elapsed_seconds()
    return min((one for one in moments if one > now), default=None)


def _bounds_end(record: Run) -> bool:
    """Whether the deadline is for its end; that for a late start ends when it runs."""
    return RunRequest.of(record).deadline_bounds_end
