"""What the API answers with, as OpenAPI shows it. Fields are those of `director.results`.

Names of fields stay: what is added later is added beside them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict

from strongroom.daemons.director.api.models.formats import moment
from strongroom.daemons.director.results import EventKind, RunKind, RunState

if TYPE_CHECKING:
    from strongroom.daemons.director import results

Item = TypeVar("Item")


class Answer(BaseModel):
    """Base of all answers."""

    model_config = ConfigDict(frozen=True)


class Failure(Answer):
    """Why a request was not done. `error_id` stays from release to release; see exit codes."""

    error_id: str
    message: str


class Page(Answer, Generic[Item]):
    """Part of a listing; `next` goes into `after` of the next request, null at the end."""

    items: list[Item]
    next: str | None = None


class Run(Answer):
    """One execution of a job."""

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
    scheduled: str | None
    started: str | None
    ended: str | None
    files: int
    bytes: int
    stored_bytes: int
    errors: int
    snapshot: str
    error_id: str
    error: str
    reason: str
    requested_by: str
    attempt: int
    rescheduled_from: str
    total_files: int | None
    total_bytes: int | None
    total_is_estimate: bool
    message: str
    ending: str
    summary: dict[str, Any]
    security: dict[str, Any]

    @classmethod
    def of(cls, run: results.RunInfo) -> Run:
        """A run of the director."""
        return cls(
            **{
                name: getattr(run, name)
                for name in cls.model_fields
                if name not in ("scheduled", "started", "ended")
            },
            scheduled=moment(run.scheduled_ns),
            started=moment(run.started_ns),
            ended=moment(run.ended_ns),
        )


class LogLine(Answer):
    """A line of a run's log."""

    sequence: int
    time: str | None
    level: str
    text: str

    @classmethod
    def of(cls, line: results.LogLine) -> LogLine:
        """A line of the director."""
        return cls(
            sequence=line.sequence, time=moment(line.time_ns), level=line.level, text=line.text
        )


class RunEvent(Answer):
    """What happened to a run: `run` is there for state and progress, `line` for log."""

    type: EventKind
    run: Run | None = None
    line: LogLine | None = None

    @classmethod
    def of(cls, event: results.RunEvent) -> RunEvent:
        """An event of the director."""
        return cls(
            type=event.kind,
            run=None if event.run is None else Run.of(event.run),
            line=None if event.line is None else LogLine.of(event.line),
        )


class StreamDenied(Answer):
    """The last event of a stream whose reader may no longer read it, and why."""

    type: Literal["denied"]
    error_id: str
    message: str


class Client(Answer):
    """A client and what is known of its agent."""

    name: str
    address: str
    enabled: bool
    connected: bool
    version: str
    platform: str
    features: tuple[str, ...]
    certificate_serial: str
    enrolled: str | None
    last_seen: str | None
    clock_ahead_seconds: float
    tls_mode: str
    maximum_concurrent_runs: int
    workers: int
    running: int
    queued: int
    last_backup: str | None

    @classmethod
    def of(cls, client: results.ClientInfo) -> Client:
        """A client of the director."""
        told = {name: getattr(client, name, None) for name in cls.model_fields}
        told |= {
            "enabled": client.is_enabled,
            "connected": client.is_connected,
            "enrolled": moment(client.enrolled_ns),
            "last_seen": moment(client.last_seen_ns),
            "last_backup": moment(client.last_backup_ns),
        }
        return cls.model_validate(told)


class Job(Answer):
    """A job, when it is due next, and its last run."""

    name: str
    kind: RunKind
    level: str
    client: str
    fileset: str
    schedule: str
    storage: str
    pool: str
    priority: int
    enabled: bool
    next_due: str | None
    last_run: Run | None

    @classmethod
    def of(cls, job: results.JobInfo) -> Job:
        """A job of the director."""
        return cls(
            name=job.name,
            kind=job.kind,
            level=job.level,
            client=job.client,
            fileset=job.fileset,
            schedule=job.schedule,
            storage=job.storage,
            pool=job.pool,
            priority=job.priority,
            enabled=job.is_enabled,
            next_due=moment(job.next_due_ns),
            last_run=None if job.last_run is None else Run.of(job.last_run),
        )


class DueRun(Answer):
    """A run that a schedule will start."""

    job: str
    client: str
    level: str
    pool: str
    storage: str
    priority: int
    due: str | None

    @classmethod
    def of(cls, due: results.DueRun) -> DueRun:
        """One of the director."""
        return cls(
            job=due.job,
            client=due.client,
            level=due.level,
            pool=due.pool,
            storage=due.storage,
            priority=due.priority,
            due=moment(due.due_ns),
        )


class Status(Answer):
    """The director at a glance; runs are those that the caller may see."""

    name: str
    version: str
    started: str | None
    now: str | None
    time_zone: str
    clients: int
    clients_connected: int
    active: list[Run]
    recent: list[Run]
    due: list[DueRun]
    warnings: tuple[str, ...]


class Snapshot(Answer):
    """A snapshot as the catalog has it; `kept_until`: nobody can remove it earlier.

    `original`: the id of the snapshot that it is a copy of, "" if it is none.
    """

    id: str
    client: str
    job: str
    fileset: str
    storage: str
    pool: str
    level: str
    run: str
    original: str
    time: str | None
    server_time: str | None
    files: int
    bytes: int
    stored_bytes: int
    errors: int
    tags: tuple[str, ...]
    removed: str | None
    kept_until: str | None

    @classmethod
    def of(cls, snapshot: results.SnapshotInfo) -> Snapshot:
        """A snapshot of the director."""
        return cls(
            id=snapshot.id,
            client=snapshot.client,
            job=snapshot.job,
            fileset=snapshot.fileset,
            storage=snapshot.storage,
            pool=snapshot.pool,
            level=snapshot.level,
            run=snapshot.run,
            original=snapshot.original,
            time=moment(snapshot.start_ns),
            server_time=moment(snapshot.server_ns),
            files=snapshot.files,
            bytes=snapshot.bytes,
            stored_bytes=snapshot.stored_bytes,
            errors=snapshot.errors,
            tags=snapshot.tags,
            removed=moment(snapshot.removed_ns),
            kept_until=moment(snapshot.kept_until_ns),
        )


class AuditEntry(Answer):
    """Who did what; `result` is "done", or the id of the error that kept it from being done."""

    id: int
    time: str | None
    who: str
    role: str
    action: str
    object: str
    result: str
    address: str

    @classmethod
    def of(cls, entry: results.AuditEntry) -> AuditEntry:
        """An entry of the director."""
        return cls(
            id=entry.id,
            time=moment(entry.time_ns),
            who=entry.who,
            role=entry.role,
            action=entry.action,
            object=entry.object,
            result=entry.result,
            address=entry.address,
        )


class Token(Answer):
    """A token, without its text. `profile`: of whose permissions it has only those."""

    id: str
    name: str
    profile: str
    created: str | None
    expires: str | None
    last_used: str | None

    @classmethod
    def of(cls, token: results.TokenInfo) -> Token:
        """A token of the director."""
        return cls(
            id=token.id,
            name=token.name,
            profile=token.profile,
            created=moment(token.created_ns),
            expires=moment(token.expires_ns),
            last_used=moment(token.last_used_ns),
        )


class NewToken(Answer):
    """A token just made; its text is shown this once."""

    token: Token
    text: str


class Reload(Answer):
    """What came of reading the configuration again; with errors the one before stays."""

    loaded: bool
    errors: tuple[str, ...]
    warnings: tuple[str, ...]


class Me(Answer):
    """Who the director takes the caller for, and the actions it may do."""

    name: str
    role: str
    actions: list[str]
