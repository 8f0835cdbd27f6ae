"""Turns a request into a run that can be queued."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Final

import msgspec
from blake3 import blake3

from strongroom import clock
from strongroom.clock import SECOND_NS
from strongroom.config.settings.companions import parse_companion
from strongroom.config.settings.levels import NOTHING_TO_DO
from strongroom.daemons.director.catalog.runs import RunRecord, new_run_id
from strongroom.daemons.director.repositories.ownership import require_sound
from strongroom.daemons.director.runs.plan import Overrides, plan
from strongroom.daemons.director.runs.run_request import RunRequest
from strongroom.errors import ConflictError, UsageError
from strongroom.jobs.restore.options import Overwrite

if TYPE_CHECKING:
    from strongroom.config.settings.configuration import DirectorConfiguration
    from strongroom.config.settings.job import JobSettings
    from strongroom.daemons.director.catalog.snapshots import SnapshotRecord
    from strongroom.daemons.director.results.snapshots import RestoreRequest
    from strongroom.daemons.director.runs.plan import JobPlan

# The longest chain of jobs that start each other; two jobs may name each other.
MOST_COMPANIONS: Final = 3
# A restore without a Restore job in the configuration.
RESTORE_JOB: Final = "Restore"
_USUAL_PRIORITY: Final = 10
_REPLACE: Final = {
    "always": Overwrite.ALWAYS,
    "ifnewer": Overwrite.IF_NEWER,
    "never": Overwrite.NEVER,
}


def require_complete(planned: JobPlan) -> None:
    """Raise UsageError for a restore job, and for a backup without what it needs."""
    job = planned.job
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


def new_run(planned: JobPlan, *, scheduled_ns: int = 0, requested_by: str = "") -> RunRecord:
    """A run as planned, to be submitted. scheduled_ns: when it was due, 0 for now.

    Raises UsageError for a plan that is not complete.
    """
    require_complete(planned)
    job, said = planned.job, planned.overrides
    now_ns = clock.now_ns()
    due_ns = scheduled_ns or now_ns
    changed = {name: value for name, value in asdict(said).items() if value}
    sched_time_seconds = said.max_run_sched_time_seconds
    if sched_time_seconds is None:
        sched_time_seconds = job.max_run_sched_time_seconds
    deadline_ns = 0
    if sched_time_seconds:
        deadline_ns = due_ns + sched_time_seconds * SECOND_NS
    elif job.max_start_delay_seconds:
        deadline_ns = due_ns + job.max_start_delay_seconds * SECOND_NS
    return RunRecord(
        id=new_run_id(),
        job=job.name,
        client=planned.client,
        fileset=planned.fileset,
        storage=planned.storage,
        pool=planned.pool(planned.level),
        level=planned.level,
        kind=job.kind,
        priority=planned.priority,
        scheduled_ns=due_ns,
        queued_ns=now_ns,
        deadline_ns=deadline_ns,
        requested_by=requested_by,
        request=RunRequest(
            level=planned.level,
            overrides=changed,
            pools=planned.pools() if job.kind == "backup" else {},
            deadline_bounds_end=bool(sched_time_seconds),
        ).stored(),
    )


def companions(configuration: DirectorConfiguration, record: RunRecord) -> list[RunRecord]:
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
            said = parse_companion(text).at_level(record.level)
        except UsageError as error:
            raise UsageError(f"Run of job {job.name}: {error}") from error
        overrides = Overrides(
            level=said.level,
            client=said.client,
            fileset=said.fileset,
            storage=said.storage,
            pool=said.pool,
            priority=said.priority,
        )
        made = new_run(
            plan(configuration, said.job, overrides),
            requested_by=f"run {record.id}",
        )
        request = msgspec.structs.replace(RunRequest.of(made), companion_depth=depth + 1)
        run_id = blake3(f"{record.id} {number}".encode()).hexdigest(16)
        found.append(msgspec.structs.replace(made, id=run_id, request=request.stored()))
    return found


def new_restore(
    configuration: DirectorConfiguration,
    wanted: RestoreRequest,
    snapshot: SnapshotRecord,
    requested_by: str,
) -> RunRecord:
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
    return RunRecord(
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
            raise UsageError(f"job {name} is no restore job; its Type is {job.type}")
        if job.speaks_ndmp:
            raise UsageError(f"restore job {name} speaks NDMP, which is not supported")
        return job
    names = restore_jobs(configuration, client)
    return configuration.job(names[0]) if names else None


def _replace_of(job: JobSettings | None) -> Overwrite:
    # If Older has no counterpart; If Newer is what people mean by either.
    word = job.replace.lower() if job is not None else ""
    return _REPLACE.get(word, Overwrite.IF_NEWER if word == "ifolder" else Overwrite.IF_CHANGED)
