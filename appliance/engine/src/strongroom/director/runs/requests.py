"""Turns a request into a run that can be queued: of a job, its companions, or a restore.

Overrides come from a schedule's Run or from the caller. A run is planned once, when it is
requested; its record has all of it, including the pools for other levels that it may get.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Final, Self

import msgspec
from blake3 import blake3

from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.base.decoding import decodable
from strongroom.base.errors import ConflictError, UsageError
from strongroom.config.settings.configuration import DirectorConfiguration
from strongroom.config.settings.job import JobSettings, parse_companion
from strongroom.config.settings.levels import NOTHING_TO_DO, level_of
from strongroom.director.catalog.runs import new_run_id
from strongroom.director.repositories.access import require_sound
from strongroom.director.results.runs import Run
from strongroom.director.results.snapshots import RestoreRequest, Snapshot
from strongroom.engine.restore.options import Overwrite

# The longest chain of jobs that start each other; two jobs may name each other.
MOST_COMPANIONS: Final = 3
# A restore without a Restore job in the configuration.
RESTORE_JOB: Final = "Restore"
_USUAL_PRIORITY: Final = 10
_POOL_LEVELS: Final = ("full", "differential", "incremental")
_REPLACE: Final = {
    "always": Overwrite.ALWAYS,
    "ifnewer": Overwrite.IF_NEWER,
    "never": Overwrite.NEVER,
}


class RunRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Fields of all kinds of runs; what is not set has its default.

    Of a job: level, as it was planned, None if it was not; overrides, by their names; pools, that a
    backup has by the level that it gets in the end; deadline_bounds_end, whether the deadline is
    for its end, else for its beginning; companion_depth, how many runs started each other before.
    Of an estimate: listing. Of a restore: what a RestoreRequest says, with paths and target as the
    hexadecimal digits of their bytes. limit_set_bytes_per_second: by an operator, while it ran.
    """

    level: str | None = None
    overrides: dict[str, str | int] = {}
    pools: dict[str, str] = {}
    deadline_bounds_end: bool = False
    companion_depth: int = 0
    listing: bool = False
    snapshot: str = ""
    copies: tuple[str, ...] | None = None
    paths: tuple[str, ...] = ()
    subpath: str = ""
    target: str = ""
    in_place: bool = False
    overwrite: Overwrite = Overwrite.IF_CHANGED
    delete: bool = False
    dry_run: bool = False
    workers: int = 0
    where: tuple[tuple[str, ...], ...] = ()
    keeps_privileges: bool = False
    maximum_bytes_per_second: int = 0
    limit_set_bytes_per_second: int | None = None

    @classmethod
    def of(cls, record: Run) -> Self:
        """That of a run."""
        return msgspec.convert(record.request, decodable(cls))

    def stored(self) -> dict[str, Any]:
        """As the record of a run has it."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found


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
    def of(cls, given: object) -> Overrides:
        """What a schedule's Run, a companion or a caller says by the same names."""
        named = {one.name: getattr(given, one.name, None) for one in fields(cls)}
        return cls(**{name: value for name, value in named.items() if value is not None})

    def pool_of_level(self, level: str) -> str:
        """The pool that is set for a backup of this level, "" for none."""
        own = {
            "full": self.full_pool,
            "differential": self.differential_pool,
            "incremental": self.incremental_pool,
        }
        return own.get(level, "") or self.pool


def plan(
    configuration: DirectorConfiguration,
    job_name: str,
    overrides: Overrides | None = None,
    *,
    scheduled_ns: int = 0,
    requested_by: str = "",
) -> Run:
    """A run of a job as planned, complete or not. scheduled_ns: when it was due, 0 for now.

    level: as requested, before any upgrade. Raises UnknownNameError, UsageError.
    """
    given = overrides or Overrides()
    job = configuration.job(job_name)
    for name, lookup in (
        (given.client, configuration.client),
        (given.fileset, configuration.fileset),
        (given.storage, configuration.storage),
        *((pool, configuration.pool) for pool in (given.pool, given.next_pool)),
        *((given.pool_of_level(level), configuration.pool) for level in _POOL_LEVELS),
    ):
        if name:
            lookup(name)

    def pool(level: str) -> str:
        """An override's, the level's own, or the job's."""
        return given.pool_of_level(level) or job.pool_of_level(level)

    level = level_of(job.kind, given.level or job.level)
    now_ns = clock.now_ns()
    due_ns = scheduled_ns or now_ns
    sched_time_seconds = given.max_run_sched_time_seconds
    if sched_time_seconds is None:
        sched_time_seconds = job.max_run_sched_time_seconds
    longest_seconds = sched_time_seconds or job.max_start_delay_seconds
    return Run(
        id=new_run_id(),
        job=job.name,
        client=given.client or job.client,
        fileset=given.fileset or job.fileset,
        storage=given.storage or configuration.storage_of(job),
        pool=pool(level),
        level=level,
        kind=job.kind,
        priority=given.priority or job.priority,
        scheduled_ns=due_ns,
        queued_ns=now_ns,
        deadline_ns=due_ns + longest_seconds * SECOND_NS if longest_seconds else 0,
        requested_by=requested_by,
        request=RunRequest(
            level=level,
            overrides={name: value for name, value in asdict(given).items() if value},
            pools={one: pool(one) for one in _POOL_LEVELS} if job.kind == "backup" else {},
            deadline_bounds_end=bool(sched_time_seconds),
        ).stored(),
    )


def new_run(
    configuration: DirectorConfiguration,
    job_name: str,
    overrides: Overrides | None = None,
    *,
    scheduled_ns: int = 0,
    requested_by: str = "",
) -> Run:
    """A planned run that is complete, to be submitted. Raises UnknownNameError, UsageError."""
    planned = plan(
        configuration,
        job_name,
        overrides,
        scheduled_ns=scheduled_ns,
        requested_by=requested_by,
    )
    require_complete(configuration, planned)
    return planned


def require_complete(configuration: DirectorConfiguration, planned: Run) -> None:
    """Raise UsageError for a restore job, and for a backup without what it needs."""
    job = configuration.job(planned.job)
    if (refusal := NOTHING_TO_DO.get(job.type)) is not None:
        raise UsageError(f"job {job.name} {refusal}")
    if job.speaks_ndmp:
        raise UsageError(f"job {job.name} speaks NDMP, which is not supported")
    if job.kind == "restore":
        raise UsageError(f"{job.name} is a restore job; a restore is started with its snapshot")
    if job.kind != "backup":
        return
    needed = {"Client": planned.client, "FileSet": planned.fileset, "Storage": planned.storage}
    if lacking := [name for name, value in needed.items() if not value]:
        raise UsageError(f"job {job.name} has no {' and no '.join(lacking)}")


def companions(configuration: DirectorConfiguration, record: Run) -> list[Run]:
    """The runs that a job's `Run` directives start together with a run of it.

    Runs that were started so start no others after MOST_COMPANIONS steps. Their ids follow from the
    run's, so that they are known when they are asked for again.

    Raises UnknownNameError, UsageError.
    """
    job = configuration.jobs.get(record.job)
    depth = RunRequest.of(record).companion_depth
    if job is None or depth >= MOST_COMPANIONS:
        return []
    found = []
    for number, text in enumerate(job.companions):
        try:
            given = parse_companion(text).at_level(record.level)
        except UsageError as error:
            raise UsageError(f"Run of job {job.name}: {error}") from error
        by = f"run {record.id}"
        made = new_run(configuration, given.job, Overrides.of(given), requested_by=by)
        request = msgspec.structs.replace(RunRequest.of(made), companion_depth=depth + 1)
        run_id = blake3(f"{record.id} {number}".encode()).hexdigest(16)
        found.append(replace(made, id=run_id, request=request.stored()))
    return found


def new_restore(
    configuration: DirectorConfiguration,
    wanted: RestoreRequest,
    snapshot: Snapshot,
    requested_by: str,
) -> Run:
    """A restore, to be submitted; missing options are taken from its Restore job.

    Raises UnknownNameError, UsageError, ConflictError for a snapshot that was removed.
    """
    if snapshot.removed_ns:
        raise ConflictError(f"snapshot {snapshot.id[:8]} was removed")
    require_sound(snapshot)
    client = configuration.client(wanted.client or snapshot.client)
    job = _restore_job(configuration, wanted.job, client.name)
    if not client.enabled:
        raise ConflictError(f"client {client.name} is disabled")
    target = wanted.target
    if not target and not wanted.in_place and job is not None and job.where:
        target = job.where.encode("utf-8", "surrogateescape")
    in_place = wanted.in_place or target == b"/"
    if in_place:
        target = b"/"
    if not target.startswith(b"/"):
        raise UsageError("a restore needs an absolute path as its target, or in_place")
    if b"/../" in target + b"/" or b"\0" in target:
        raise UsageError("the target of a restore must not hold .. or NUL")
    try:
        overwrite = Overwrite(wanted.overwrite) if wanted.overwrite else _replace_of(job)
    except ValueError as error:
        known = ", ".join(Overwrite)
        raise UsageError(f"overwrite is one of {known}, not {wanted.overwrite!r}") from error
    subpath, *paths = (path.strip(b"/") for path in (wanted.subpath, *wanted.paths))
    if any(b"\0" in path or b".." in path.split(b"/") for path in (subpath, *paths)):
        raise UsageError("a path of a snapshot holds neither .. nor NUL")
    if subpath and (paths or in_place):
        raise UsageError("a subpath goes into a target, without other paths")
    if b"" in paths:
        # The root is everything.
        paths = []
    now_ns = clock.now_ns()
    return Run(
        id=new_run_id(),
        job=job.name if job is not None else RESTORE_JOB,
        client=client.name,
        fileset=snapshot.fileset,
        storage=snapshot.storage,
        pool=snapshot.pool,
        kind="restore",
        priority=wanted.priority or (job.priority if job is not None else _USUAL_PRIORITY),
        scheduled_ns=now_ns,
        queued_ns=now_ns,
        snapshot=snapshot.id,
        source_client=snapshot.client,
        requested_by=requested_by,
        request=RunRequest(
            snapshot=snapshot.id,
            copies=wanted.copies,
            paths=tuple(path.hex() for path in paths),
            subpath=subpath.hex(),
            target=target.hex(),
            in_place=in_place,
            overwrite=overwrite,
            delete=wanted.delete,
            dry_run=wanted.dry_run,
            workers=wanted.workers,
            maximum_bytes_per_second=wanted.maximum_bytes_per_second,
            where=wanted.where,
            # Back where they came from, files are what they were.
            keeps_privileges=wanted.keeps_privileges
            or (in_place and client.name == snapshot.client),
        ).stored(),
    )


def restore_jobs(configuration: DirectorConfiguration, client: str = "") -> list[str]:
    """The names of all enabled Restore jobs that speak our protocol, the first to use first.

    client: to which it restores; a job for it comes before others.
    """
    jobs = [
        job
        for job in configuration.jobs.values()
        if job.kind == "restore" and job.enabled and not job.speaks_ndmp
    ]
    return [job.name for job in sorted(jobs, key=lambda job: job.client != client)]


def _restore_job(
    configuration: DirectorConfiguration, name: str, client: str
) -> JobSettings | None:
    if name:
        job = configuration.job(name)
        if job.kind != "restore":
            raise UsageError(f"job {name} is not a restore job; its Type is {job.type}")
        if job.speaks_ndmp:
            raise UsageError(f"restore job {name} speaks NDMP, which is not supported")
        return job
    names = restore_jobs(configuration, client)
    return configuration.job(names[0]) if names else None


def _replace_of(job: JobSettings | None) -> Overwrite:
    # If Older has no counterpart; If Newer is what people mean by either.
    word = job.replace.lower() if job is not None else ""
    return _REPLACE.get(word, Overwrite.IF_NEWER if word == "ifolder" else Overwrite.IF_CHANGED)
