"""What a Job resource means for one run of it: kind, level, pool, storage, limits.

Overrides come from a schedule's Run or from whoever asked. A level of ours is `full`,
`differential` or `incremental`; Bareos's others are mapped to what they are for here: Base is full;
Since and VirtualFull are incremental, since every snapshot restores by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from strongroom.daemons.director.runs.dispatch import ConcurrencyLimits
from strongroom.errors import UnknownNameError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from strongroom.config.model import ComponentConfiguration, Resource
    from strongroom.config.values.run_schedule import ScheduleRun
    from strongroom.daemons.director.results import RunKind
    from strongroom.net.control.messages import TlsMode

_KINDS: Final[dict[str, RunKind]] = {
    "Backup": "backup",
    "Restore": "restore",
    "Verify": "verify",
    "Copy": "copy",
    "Migrate": "copy",
    "Admin": "admin",
    "Archive": "admin",
    "Consolidate": "admin",
}
_LEVELS: Final = {
    "full": "full",
    "base": "full",
    "differential": "differential",
    "incremental": "incremental",
    "since": "incremental",
    "virtualfull": "incremental",
}
# What a verify compares: the live files of the client, a sample that is restored, or all content.
VERIFY_CLIENT: Final = "client"
VERIFY_SAMPLE: Final = "data"
VERIFY_CONTENT: Final = "content"
_VERIFY_LEVELS: Final = {
    "catalog": VERIFY_CLIENT,
    "disktocatalog": VERIFY_CLIENT,
    "initcatalog": VERIFY_CLIENT,
    "volumetocatalog": VERIFY_CONTENT,
    "data": VERIFY_SAMPLE,
    "client": VERIFY_CLIENT,
    "content": VERIFY_CONTENT,
}


@dataclass(frozen=True, slots=True)
class Overrides:
    """What a run has that its job has not; "", 0 and None: as the job says."""

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
        names = {
            name: getattr(run, name).name
            for name in (
                "storage",
                "pool",
                "full_pool",
                "differential_pool",
                "incremental_pool",
                "next_pool",
            )
            if getattr(run, name) is not None
        }
        return cls(
            level=run.level or "",
            priority=run.priority or 0,
            max_run_sched_time_seconds=run.max_run_sched_time_seconds,
            **names,
        )


@dataclass(frozen=True, slots=True)
class JobPlan:
    """One run to be; names of resources. level: as asked for, before any upgrade."""

    job: Resource
    kind: RunKind
    level: str
    client: str
    fileset: str
    storage: str
    priority: int
    overrides: Overrides

    def pool(self, level: str) -> str:
        """The pool of a backup of this level: an override's, the level's own, or the job's."""
        said = self.overrides
        own = getattr(said, f"{level}_pool", "") if level in _LEVELS else ""
        if own or said.pool:
            return own or said.pool
        by_level = getattr(self.job, f"{level}_backup_pool") if level in _LEVELS else None
        return _name(by_level) or _name(self.job.pool)


def kind_of(job: Resource) -> RunKind:
    """What a job does."""
    return _KINDS[job.job_type or "Backup"]


def plan(
    configuration: ComponentConfiguration, job_name: str, overrides: Overrides | None = None
) -> JobPlan:
    """What a run of a job is to be. Raises UnknownNameError, UsageError."""
    said = overrides or Overrides()
    job = resource(configuration, "Job", job_name)
    kind = kind_of(job)
    client = said.client or _name(job.client)
    fileset = said.fileset or _name(job.fileset)
    if client:
        resource(configuration, "Client", client)
    if fileset:
        resource(configuration, "FileSet", fileset)
    for pool in (said.pool, said.full_pool, said.differential_pool, said.incremental_pool):
        if pool:
            resource(configuration, "Pool", pool)
    return JobPlan(
        job=job,
        kind=kind,
        level=level_of(kind, said.level or job.level or ""),
        client=client,
        fileset=fileset,
        storage=_storage(configuration, job, said),
        priority=said.priority or job.priority,
        overrides=said,
    )


def level_of(kind: str, text: str) -> str:
    """A level as ours, "" for kinds that have none. Raises UsageError."""
    if kind not in ("backup", "verify"):
        return ""
    known: Mapping[str, str] = _LEVELS if kind == "backup" else _VERIFY_LEVELS
    level = known.get(text.lower() or ("incremental" if kind == "backup" else "catalog"))
    if level is None:
        raise UsageError(f"a {kind} has no level {text!r}; there are {', '.join(sorted(known))}")
    return level


def resource(configuration: ComponentConfiguration, type_name: str, name: str) -> Resource:
    """The resource of this name; UnknownNameError."""
    found = configuration.find(type_name, name)
    if found is None:
        raise UnknownNameError(f"the director's configuration has no {type_name} {name!r}")
    return found


def is_enabled(found: Resource | None) -> bool:
    """Whether a resource takes part; what is not there does not stand in the way."""
    return found is None or bool(found.enabled)


def tls_mode_of(client: Resource, features: tuple[str, ...] = ()) -> TlsMode:
    """How the agent of a client talks to storage daemons; `auto` kTLS is used where it can."""
    if not client.tls_enable:
        return "off"
    ktls = str(client.enable_ktls or "auto").lower()
    if ktls == "require":
        return "ktls-required"
    if ktls in ("yes", "true") or (ktls == "auto" and "ktls" in features):
        return "ktls"
    return "tls"


def limits_of(configuration: ComponentConfiguration) -> ConcurrencyLimits:
    """How many runs may be under way at once."""

    def limits(type_name: str, attribute: str = "maximum_concurrent_jobs") -> dict[str, int]:
        resources = configuration.of_type(type_name)
        return {name: int(getattr(one, attribute) or 0) for name, one in resources.items()}

    director = configuration.daemon
    return ConcurrencyLimits(
        director=int(director.maximum_concurrent_jobs) if director is not None else 1,
        clients=limits("Client"),
        storages=limits("Storage"),
        storage_reads=limits("Storage", "maximum_concurrent_read_jobs"),
        jobs=limits("Job"),
    )


def longest_run_seconds(job: Resource, level: str) -> int:
    """How long a run of this level may take; 0 for no limit."""
    by_level = getattr(job, f"{level}_max_runtime_seconds", None) if level in _LEVELS else None
    return int(by_level or job.max_run_time_seconds or 0)


def bandwidth(*resources: Resource | None) -> int:
    """The lowest of the limits that resources set, bytes per second; 0 for none."""
    limits = []
    for one in resources:
        if one is None:
            continue
        for name in (
            "maximum_bandwidth_bytes_per_second",
            "maximum_bandwidth_per_job_bytes_per_second",
        ):
            value = getattr(one, name, None)
            if value:
                limits.append(int(value))
    return min(limits, default=0)


def _storage(configuration: ComponentConfiguration, job: Resource, said: Overrides) -> str:
    if said.storage:
        return resource(configuration, "Storage", said.storage).name
    candidates: tuple[Any, ...] = tuple(job.storage or ())
    if not candidates and job.pool is not None:
        candidates = tuple(job.pool.storage or ())
    for storage in candidates:
        if storage.enabled:
            return str(storage.name)
    return ""


def _name(found: Resource | None) -> str:
    return "" if found is None else found.name
