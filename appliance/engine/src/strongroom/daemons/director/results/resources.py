"""Clients, jobs and storages of the configuration, with what is known of them now."""

from __future__ import annotations

from dataclasses import dataclass

from strongroom.daemons.director.results.runs import Run, RunKind
from strongroom.daemons.director.served_formats import Time, served


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
