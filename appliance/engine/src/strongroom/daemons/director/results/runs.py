"""Runs, their logs and their events. A run is one execution of a job."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, Literal

from strongroom.daemons.director.served_formats import Time, served

RunState = Literal["queued", "waiting", "running", "done", "incomplete", "failed", "cancelled"]
RunKind = Literal["backup", "restore", "verify", "estimate", "copy", "admin"]
EventKind = Literal["state", "progress", "log"]

# The level of a verify job that restores a sample and compares it.
RESTORE_TEST_LEVEL: Final = "data"
FINAL_STATES: Final[frozenset[str]] = frozenset(("done", "incomplete", "failed", "cancelled"))


@served()
@dataclass(frozen=True, slots=True)
class Run:
    """One execution of a job; counts of an active one are those reported last.

    reason: why it waits, why its level was changed, or why it ended as it did. attempt: 1, or
    more after rescheduling; `rescheduled_from` is then the run before. total_files, total_bytes:
    the expected total, None if unknown; for a backup an estimate, the totals of the last one.
    ending: the state it is to end in, sent to its agent, which has not confirmed it yet; ""
    otherwise. is_concluded: it has ended, and so has what follows: scripts, another attempt,
    retention and the report. source_client: of a restore, whose snapshot it reads.
    """

    id: str
    job: str
    client: str
    fileset: str
    storage: str
    pool: str
    level: str
    kind: RunKind
    state: RunState
    priority: int
    scheduled_ns: Time
    started_ns: Time
    ended_ns: Time
    files: int
    bytes: int
    stored_bytes: int
    errors: int
    snapshot: str
    error_id: str
    error: str
    reason: str
    requested_by: str
    attempt: int = 1
    rescheduled_from: str = ""
    total_files: int | None = None
    total_bytes: int | None = None
    total_is_estimate: bool = False
    message: str = ""
    ending: str = ""
    is_concluded: bool = False
    source_client: str = ""
    summary: dict[str, Any] = field(default_factory=dict)
    security: dict[str, Any] = field(default_factory=dict)

    @property
    def is_final(self) -> bool:
        """Whether it has ended."""
        return self.state in FINAL_STATES


@served()
@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of a run's log; `sequence` counts from 1 within the run."""

    sequence: int
    time_ns: Time
    level: str
    text: str


@served(kind="type")
@dataclass(frozen=True, slots=True)
class RunEvent:
    """Something happened to a run: its state or counts (`run`), or a line of its log (`line`)."""

    kind: EventKind
    run: Run | None = None
    line: LogLine | None = None


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Which runs; what is empty does not count. before_ns: begun or scheduled before.

    of_clients, of_jobs: only those of these, None of all; a restore may be of any job.
    """

    job: str = ""
    client: str = ""
    kind: str = ""
    states: tuple[str, ...] = ()
    of_clients: tuple[str, ...] | None = None
    of_jobs: tuple[str, ...] | None = None
    after_ns: int = 0
    before_ns: int = 0
    limit: int = 100
    offset: int = 0
