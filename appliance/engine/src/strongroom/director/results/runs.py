"""Runs, their logs and their events. A run is one execution of a job."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args

from pydantic import computed_field

from strongroom.director.results.formats import Internal, Time, served

RunState = Literal["queued", "waiting", "running", "done", "incomplete", "failed", "cancelled"]
RunKind = Literal["backup", "restore", "verify", "estimate", "copy", "admin"]
EventKind = Literal["state", "progress", "log"]

# The level of a verify job that restores a sample and compares it.
RESTORE_TEST_LEVEL: Final = "data"
FINAL_STATES: Final[frozenset[str]] = frozenset(("done", "incomplete", "failed", "cancelled"))
UNFINISHED_STATES: Final = frozenset(get_args(RunState)) - FINAL_STATES


@served()
@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One execution of a job, as the catalog has it; counts of an active one: those reported last.

    reason: why it waits, why its level was changed, or why it ended as it did. attempt: 1, or
    more after rescheduling; `rescheduled_from` is then the run before. source_client: of a restore,
    whose snapshot it reads.

    queued_ns: when it was requested. not_before_ns: rescheduled for then. deadline_ns: when it is
    ended at the latest, 0 for never. sequence: of the agent's last report that is stored. request:
    other options, specific to its kind. aftermath: the step of AFTERMATH that is done next, ""
    when all are done. given_up_ns: when the director ended it without its agent, 0 if it did not.

    Of an active one: total_files, total_bytes: the expected total, None if unknown; for a backup
    an estimate, the totals of the last one. ending: the state it is to end in, sent to its agent,
    which has not confirmed it yet; "" otherwise.
    """

    id: str
    job: str
    client: str = ""
    fileset: str = ""
    storage: str = ""
    pool: str = ""
    level: str = ""
    kind: RunKind
    state: RunState = "queued"
    priority: int = 10
    scheduled_ns: Time = 0
    started_ns: Time = 0
    ended_ns: Time = 0
    files: int = 0
    bytes: int = 0
    stored_bytes: int = 0
    errors: int = 0
    snapshot: str = ""
    error_id: str = ""
    error: str = ""
    reason: str = ""
    requested_by: str = ""
    attempt: int = 1
    rescheduled_from: str = ""
    source_client: str = ""
    summary: dict[str, Any] = field(default_factory=dict)
    security: dict[str, Any] = field(default_factory=dict)
    # What only the director needs; a change of it alone is no news to anyone who watches a run.
    queued_ns: Internal[int] = field(default=0, compare=False)
    not_before_ns: Internal[int] = field(default=0, compare=False)
    deadline_ns: Internal[int] = field(default=0, compare=False)
    parent: Internal[str] = field(default="", compare=False)
    fileset_digest: Internal[str] = field(default="", compare=False)
    sequence: Internal[int] = field(default=0, compare=False)
    log_lines: Internal[int] = field(default=0, compare=False)
    aftermath: Internal[str] = field(default="", compare=False)
    given_up_ns: Internal[int] = field(default=0, compare=False)
    request: Internal[dict[str, Any]] = field(default_factory=dict, compare=False)
    total_files: int | None = None
    total_bytes: int | None = None
    total_is_estimate: bool = False
    message: str = ""
    ending: str = ""

    @property
    def is_final(self) -> bool:
        """Whether it has ended."""
        return self.state in FINAL_STATES

    @property
    def went_well(self) -> bool:
        """Whether it succeeded; a few files that could not be read are no failure."""
        return self.state in ("done", "incomplete")

    @computed_field  # type: ignore[prop-decorator]  # as pydantic's documentation says
    @property
    def is_concluded(self) -> bool:
        """Whether it has ended, and so has what follows: scripts, another attempt and so on."""
        return self.is_final and not self.aftermath


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
