"""The director as a whole: clients, jobs and storages, what is wrong, what ends soon."""

from __future__ import annotations

from dataclasses import dataclass

from strongroom.director.results.formats import Time, served
from strongroom.director.results.runs import Run, RunKind


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
    full_ns: when its disk is full at the rate at which its free space shrank, 0 where that is not
    known.
    stored_bytes: of all packs, 0 if not measured.
    """

    storage: str
    size_bytes: int
    free_bytes: int
    stored_bytes: int
    daily_bytes: int | None
    full_ns: int


@served()
@dataclass(frozen=True, slots=True)
class PoolCopies:
    """What a Pool with Copy To lacks at its second storage, as seen last.

    waiting: snapshots without a copy there. behind_since_ns: since when the oldest of them waits, 0
    for none. copied_ns: when the newest snapshot that has a copy was stored, 0 for none. job: that
    copies them.
    """

    pool: str
    storage: str
    job: str
    waiting: int
    behind_since_ns: Time
    copied_ns: Time


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
class Status:
    """Status of the director, with the runs and clients that the caller may see.

    problems: what is wrong, errors first, then the oldest first. warnings: conditions that need an
    operator (a clock that jumped). expiries: of certificates and tokens, the first to end first.
    copies: of each Pool with Copy To. restart_needed: directives that were changed and are in
    force only after a restart.
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
    copies: tuple[PoolCopies, ...]
    restart_needed: tuple[str, ...]


@served()
@dataclass(frozen=True, slots=True)
class Reload:
    """The result of a reload; with errors the old configuration stays in force."""

    is_loaded: bool
    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    restart_needed: tuple[str, ...] = ()
