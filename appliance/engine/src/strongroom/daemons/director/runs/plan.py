"""Plans a run of a job: kind, level, pool, storage, limits.

Overrides come from a schedule's Run or from the caller. A plan is made once, when a run is
requested; the run stores all of it, including the pools for other levels that it may get.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from strongroom.config.settings.levels import level_of
from strongroom.daemons.director.runs.dispatch import ConcurrencyLimits

if TYPE_CHECKING:
    from strongroom.config.settings.client import ClientSettings
    from strongroom.config.settings.configuration import DirectorConfiguration
    from strongroom.config.settings.job import JobSettings
    from strongroom.config.settings.storage import StorageSettings
    from strongroom.config.values.run_schedule import ScheduleRun
    from strongroom.net.control.messages import TlsMode

_POOL_LEVELS: Final = ("full", "differential", "incremental")


@dataclass(frozen=True, slots=True)
class Overrides:
    """Overrides of a run; "", 0 and None: the job's setting."""

    level: str = ""
    client: str = ""
    fileset: str = ""
    storage: str = ""
    pool: str = ""
    full_pool: str = ""
    differential_pool: str = ""
    incremental_pool: str = ""
    next_pool: str = ""
    priority: int = 0
    max_run_sched_time_seconds: int | None = None

    @classmethod
    def of_schedule(cls, run: ScheduleRun) -> Overrides:
        """Those of a schedule's Run."""
        return cls(
            level=run.level or "",
            storage=run.storage or "",
            pool=run.pool or "",
            full_pool=run.full_pool or "",
            differential_pool=run.differential_pool or "",
            incremental_pool=run.incremental_pool or "",
            next_pool=run.next_pool or "",
            priority=run.priority or 0,
            max_run_sched_time_seconds=run.max_run_sched_time_seconds,
        )

    def pool_of_level(self, level: str) -> str:
        """The pool that is set for a backup of this level, "" for none."""
        own = {
            "full": self.full_pool,
            "differential": self.differential_pool,
            "incremental": self.incremental_pool,
        }
        return own.get(level, "") or self.pool


@dataclass(frozen=True, slots=True)
class JobPlan:
    """A planned run; names of resources. level: as requested, before any upgrade."""

    job: JobSettings
    level: str
    client: str
    fileset: str
    storage: str
    priority: int
    overrides: Overrides

    def pool(self, level: str) -> str:
        """The pool of a backup of this level: an override's, the level's own, or the job's."""
        return self.overrides.pool_of_level(level) or self.job.pool_of_level(level)

    def pools(self) -> dict[str, str]:
        """Level -> pool of a backup of it."""
        return {level: self.pool(level) for level in _POOL_LEVELS}


def plan(
    configuration: DirectorConfiguration, job_name: str, overrides: Overrides | None = None
) -> JobPlan:
    """Plan a run of a job. Raises UnknownNameError, UsageError."""
    said = overrides or Overrides()
    job = configuration.job(job_name)
    for name, lookup in (
        (said.client, configuration.client),
        (said.fileset, configuration.fileset),
        (said.storage, configuration.storage),
        *((pool, configuration.pool) for pool in (said.pool, said.next_pool)),
        *((said.pool_of_level(level), configuration.pool) for level in _POOL_LEVELS),
    ):
        if name:
            lookup(name)
    return JobPlan(
        job=job,
        level=level_of(job.kind, said.level or job.level),
        client=said.client or job.client,
        fileset=said.fileset or job.fileset,
        storage=said.storage or configuration.storage_of(job),
        priority=said.priority or job.priority,
        overrides=said,
    )


def tls_mode_of(client: ClientSettings, features: tuple[str, ...] = ()) -> TlsMode:
    """How the agent of a client connects to storage daemons; `auto` uses kTLS if available."""
    if not client.tls_enable:
        return "off"
    if client.ktls == "require":
        return "ktls-required"
    if client.ktls == "yes" or (client.ktls == "auto" and "ktls" in features):
        return "ktls"
    return "tls"


def limits_of(configuration: DirectorConfiguration) -> ConcurrencyLimits:
    """How many runs may be under way at once."""
    return ConcurrencyLimits(
        director=configuration.director.maximum_concurrent_jobs,
        clients={
            name: client.maximum_concurrent_jobs for name, client in configuration.clients.items()
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


def bandwidth(
    job: JobSettings | None, client: ClientSettings | None, storage: StorageSettings | None
) -> int:
    """The lowest of the limits that these set, bytes per second; 0 for none."""
    limits = [
        job.maximum_bandwidth_bytes_per_second if job is not None else 0,
        client.maximum_bandwidth_per_job_bytes_per_second if client is not None else 0,
        storage.maximum_bandwidth_per_job_bytes_per_second if storage is not None else 0,
    ]
    return min((limit for limit in limits if limit), default=0)
