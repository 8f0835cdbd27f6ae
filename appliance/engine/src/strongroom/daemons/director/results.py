"""The director's results: plain frozen data for its API and its commands.

The API returns those marked `served` directly, and OpenAPI describes them from here. Field names
are stable: new fields are added.

Times are unix nanoseconds and 0 where something has not happened. Paths are bytes. A run is one
execution of a job; its id is 32 hexadecimal digits.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from strongroom.daemons.director.served_formats import (
    KnownTime,
    LinkTarget,
    SnapshotPath,
    Time,
    served,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from strongroom.config.settings.permissions import PermissionKind

    # Whether a caller may see a resource: its kind ("job", "client", ...) and its name.
    Permits = Callable[[PermissionKind, str], bool]

RunState = Literal["queued", "waiting", "running", "done", "incomplete", "failed", "cancelled"]
RunKind = Literal["backup", "restore", "verify", "estimate", "copy", "admin"]
EventKind = Literal["state", "progress", "log"]

FINAL_STATES: Final[frozenset[str]] = frozenset(("done", "incomplete", "failed", "cancelled"))


def permits_all(kind: PermissionKind, name: str) -> bool:
    """The director itself may see everything."""
    return True


@dataclass(frozen=True, slots=True)
class Actor:
    """The caller: for the audit log, and for `requested_by` of a run."""

    name: str
    role: str
    address: str = ""

    @property
    def title(self) -> str:
        """The caller's name in logs and `requested_by`."""
        return f"{self.role} {self.name}".strip()


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


@served()
@dataclass(frozen=True, slots=True)
class Client:
    """A Client resource and the state of its agent.

    clock_ahead_seconds: how far the agent's clock was ahead of ours at its last Hello.
    Its last backup is the last successful one, by when it began. workers: processes that all runs
    of its agent together may start, 0 if it is not connected or does not report it.
    """

    name: str
    address: str
    is_enabled: bool
    is_connected: bool
    version: str
    platform: str
    features: tuple[str, ...]
    certificate_serial: str
    enrolled_ns: Time
    last_seen_ns: Time
    clock_ahead_seconds: float
    tls_mode: str
    maximum_concurrent_runs: int
    workers: int
    running: int
    queued: int
    last_backup_ns: Time


@served()
@dataclass(frozen=True, slots=True)
class Job:
    """A Job resource, when it is due next, and its last run."""

    name: str
    kind: RunKind
    level: str
    client: str
    fileset: str
    schedule: str
    storage: str
    pool: str
    priority: int
    is_enabled: bool
    next_due_ns: Time
    last_run: Run | None = None


@served()
@dataclass(frozen=True, slots=True)
class DueRun:
    """A run that a schedule will start."""

    job: str
    client: str
    level: str
    pool: str
    storage: str
    priority: int
    due_ns: Time


@dataclass(frozen=True, slots=True)
class ComingRuns:
    """What one Run of a schedule starts for a job; due: the first, times_ns: of all, in order."""

    due: DueRun
    times_ns: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Capacity:
    """The space of a Storage.

    daily_bytes: what backups of the last weeks stored a day, None where these are too few to tell.
    full_ns: when its disk is full at that rate if nothing is removed, 0 where that cannot be told.
    stored_bytes: of all packs, 0 if not measured.
    """

    storage: str
    size_bytes: int
    free_bytes: int
    stored_bytes: int
    daily_bytes: int | None
    full_ns: int


@dataclass(frozen=True, slots=True)
class FileChange:
    """A path that differs between two snapshots.

    kind: added, removed, modified, metadata or retyped; what: the names of what differs. before,
    after: None where there is none.
    """

    kind: str
    path: bytes
    what: tuple[str, ...]
    before: File | None
    after: File | None


@served()
@dataclass(frozen=True, slots=True)
class Expiry:
    """What ends: a certificate, a token, the authority. remedy: what to do when it ends soon.

    kind: authority, director, storage, agent, operator or token. id: of a token. client: that an
    agent is; storage: that a storage daemon of this name serves. is_soon: it ends soon, or has.
    """

    kind: str
    name: str
    id: str
    client: str
    storage: str
    begun_ns: Time
    ends_ns: Time
    is_soon: bool
    remedy: str

    @property
    def title(self) -> str:
        """What ends, in words."""
        if self.kind == "token":
            return f"the API token {self.id} of {self.name}"
        if self.kind == "authority":
            return "the certificate of the authority"
        return f"the certificate of {self.kind} {self.name}"


@served()
@dataclass(frozen=True, slots=True)
class OpenIncident:
    """Something that is wrong. event: what, one of the events of notices; id: in notices of it."""

    id: str
    event: str
    severity: str
    job: str
    client: str
    storage: str
    title: str
    detail: str
    remedy: str
    since_ns: Time


@served()
@dataclass(frozen=True, slots=True)
class Status:
    """Status of the director, with the runs and clients that the caller may see.

    problems: what is wrong, errors first, then the oldest first. warnings: conditions that need an
    operator (a clock that jumped). expiries: of certificates and tokens, the first to end first.
    restart_needed: directives that were changed and are in force only after a restart.
    """

    name: str
    version: str
    started_ns: Time
    now_ns: Time
    time_zone: str
    clients: int
    clients_connected: int
    active: tuple[Run, ...]
    recent: tuple[Run, ...]
    due: tuple[DueRun, ...]
    warnings: tuple[str, ...]
    problems: tuple[OpenIncident, ...]
    expiries: tuple[Expiry, ...]
    restart_needed: tuple[str, ...]


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


@dataclass(frozen=True, slots=True)
class SnapshotFilter:
    """Which snapshots; empty fields do not filter, except names with `exactly`.

    with_copies: if not, a copy counts only where its original is gone. of_clients, of_jobs: only
    those of these, None of all.
    """

    client: str = ""
    job: str = ""
    fileset: str = ""
    of_clients: tuple[str, ...] | None = None
    of_jobs: tuple[str, ...] | None = None
    pool: str = ""
    after_ns: int = 0
    before_ns: int = 0
    with_removed: bool = False
    with_false: bool = True
    with_copies: bool = True
    exactly: bool = False
    limit: int = 100
    offset: int = 0


@served(start_ns="time", server_ns="server_time")
@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot in the catalog, including removed ones.

    original: the id of the snapshot that it is a copy of, or "". Before the time until which it is
    kept nobody can remove it (Minimum Retention). false_reason: why it counts for nothing and
    nothing keeps it; "" for a sound one.
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
    start_ns: Time
    server_ns: Time
    files: int
    bytes: int
    stored_bytes: int
    errors: int
    tags: tuple[str, ...]
    removed_ns: Time
    kept_until_ns: Time
    false_reason: str = ""


@served()
@dataclass(frozen=True, slots=True)
class File:
    """An entry of a snapshot. kind: file, directory, symlink and so on; target: of a link."""

    snapshot: str
    path: SnapshotPath
    kind: str
    mode: int
    uid: int
    gid: int
    size_bytes: int
    modified_ns: KnownTime
    target: LinkTarget = b""
    state: str = ""


@dataclass(frozen=True, slots=True)
class FilePage:
    """Entries in order; `next` is the cursor for the following ones, b"" at the end."""

    entries: tuple[File, ...]
    next: bytes = b""


@dataclass(frozen=True, slots=True)
class FilesFound:
    """What a search found; warnings: snapshots that it had to leave out, and why."""

    entries: tuple[File, ...]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RestoreRequest:
    """A restore to start.

    paths: of the snapshot, absolute; () for all; they keep their whole path below a target.
    subpath: the one path of which the content goes right into the target; b"" for none. client:
    where the files go, "" for the client they came from. target: a folder on it; b"" with
    `in_place` puts every path where it was.
    overwrite: of jobs.restore_options.Overwrite, "" for the restore job's setting.
    maximum_bytes_per_second: 0 is no limit. where: the Where ACLs of the caller, which the agent
    checks against the resolved target (StartRestore). keeps_privileges: also where the files did
    not come from.
    """

    snapshot: str
    paths: tuple[bytes, ...] = ()
    subpath: bytes = b""
    client: str = ""
    job: str = ""
    target: bytes = b""
    in_place: bool = False
    overwrite: str = ""
    delete: bool = False
    dry_run: bool = False
    workers: int = 0
    priority: int = 0
    maximum_bytes_per_second: int = 0
    where: tuple[tuple[str, ...], ...] = ()
    keeps_privileges: bool = False


@served()
@dataclass(frozen=True, slots=True)
class AuditEntry:
    """An action of an actor; result: "done", or the id of the error.

    jobs, clients: the names of those that it was about.
    """

    id: int
    time_ns: Time
    who: str
    role: str
    action: str
    object: str
    result: str
    address: str
    jobs: tuple[str, ...] = ()
    clients: tuple[str, ...] = ()


@served()
@dataclass(frozen=True, slots=True)
class Token:
    """A token of the API, without its text, which is not stored.

    profile: restricts it to that profile's permissions. bound_to: the type of the resource of its
    name whose permissions it has, and with which it ends: Console, User, or "" for none.
    """

    id: str
    name: str
    profile: str
    bound_to: str
    created_ns: Time
    expires_ns: Time
    last_used_ns: Time


@served()
@dataclass(frozen=True, slots=True)
class Reload:
    """The result of a reload; with errors the old configuration stays in force."""

    is_loaded: bool
    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    restart_needed: tuple[str, ...] = ()


@served()
@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message that could not be delivered and was given up."""

    destination: str
    form: str
    subject: str
    created_ns: Time
    failed_ns: Time
    error: str


@dataclass(frozen=True, slots=True)
class NoticeOverview:
    """What is wrong now, how many messages wait to be sent, and what was given up."""

    incidents: tuple[OpenIncident, ...]
    waiting: int
    dead: tuple[DeadLetter, ...]


@dataclass(frozen=True, slots=True)
class NoticeTest:
    """The test of a destination; error: "" when its server took the notice."""

    destination: str
    error: str
