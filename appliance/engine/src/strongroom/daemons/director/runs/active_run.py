"""The in-memory state of a run that has not ended; the catalog has the rest.

Durations are measured by a monotonic clock, so a jump of the wall clock neither ends a run nor
keeps one alive.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import msgspec

from strongroom import clock
from strongroom.clock import SECOND_NS
from strongroom.daemons.director.runs.agent_log import AgentLog
from strongroom.daemons.director.runs.dispatch import Contender

if TYPE_CHECKING:
    from strongroom.config.settings.job import JobSettings
    from strongroom.daemons.director.catalog.runs import RunRecord
    from strongroom.daemons.director.results.runs import Run
    from strongroom.daemons.director.runs.tickets import StoredTicket
    from strongroom.net.control.messages import RunProgress

# A run that makes no progress for so long holds up no others.
IDLE_SECONDS: Final = 3600.0
# Kinds that agents execute; the director executes the others itself.
_AGENT_KINDS: Final = frozenset(("backup", "restore", "estimate"))


@dataclass(frozen=True, slots=True)
class Ending:
    """How a stopped run will end: its state and error, and why."""

    state: str
    reason: str
    error_id: str = ""


@dataclass(eq=False, slots=True)
class ActiveRun:
    """See the module. Times without a unit in their name are of clock.elapsed_seconds.

    begins_at: not before then. begun_at: when it began. deadline: from when it was scheduled.
    task: what the director does for it now. ending: it was stopped; it ends at `stop_at`
    whether or not the agent answers. is_prepared: its scripts before ran. is_sent: the agent
    has, or may have, its start message. lost_at: when its agent's connection was lost. tickets:
    stored for its start messages, and removed when it ends. agent_log: what of the agent's log is
    kept. moved_at: when its agent reported progress last.
    """

    record: RunRecord
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
        return Contender(
            id=record.id,
            job=record.job,
            client=record.client if self.is_remote else "",
            storage=record.storage,
            priority=record.priority,
            reads=record.kind in ("restore", "verify"),
            allows_mixed=job is not None and job.allow_mixed_priority,
            about=record.client,
            has_priority=record.kind not in ("restore", "estimate"),
            is_housekeeping=record.kind == "admin",
            is_idle=self.idle_seconds(clock.elapsed_seconds()) >= IDLE_SECONDS,
            is_lost=self.lost_at is not None,
        )

    def info(self) -> Run:
        """The run as results show it, with the counts that were reported last."""
        ending = self.ending.state if self.ending is not None and self.is_running else ""
        progress = self.progress
        if progress is None:
            return replace(self.record.info(), ending=ending)
        record = msgspec.structs.replace(
            self.record,
            files=progress.files,
            bytes=progress.bytes,
            stored_bytes=progress.stored_bytes,
            errors=progress.errors,
        )
        return replace(
            record.info(),
            total_files=progress.total_files,
            total_bytes=progress.total_bytes,
            total_is_estimate=progress.total_is_estimate
            and (progress.total_files, progress.total_bytes) != (None, None),
            message=progress.message,
            ending=ending,
        )


def needs_agent(record: RunRecord) -> bool:
    """Whether an agent does this run."""
    return record.kind in _AGENT_KINDS or (record.kind == "verify" and record.level == "client")


def activate(record: RunRecord) -> ActiveRun:
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
