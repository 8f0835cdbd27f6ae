"""The messages that start runs on agents: built from catalog, configuration and repositories.

Everything here blocks: call it in a thread. A restore's ticket and grant are created when it
starts, not when it is requested, so they do not expire in the queue.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from strongroom.base.errors import (
    QuotaError,
    SetBackError,
    SnapshotNotFoundError,
    UsageError,
)
from strongroom.config.settings.client import ClientSettings
from strongroom.config.settings.job import JobSettings
from strongroom.director.catalog.runs import find_runs
from strongroom.director.catalog.snapshots import (
    load_snapshot,
    missed_snapshots,
    missed_text,
    newest_snapshot,
    totals_by_client,
)
from strongroom.director.context import DirectorContext
from strongroom.director.results.runs import Run, RunFilter
from strongroom.director.results.snapshots import Snapshot
from strongroom.director.runs.active_run import StoredTicket
from strongroom.director.runs.levels import decide_level, fileset_digest
from strongroom.director.runs.requests import RunRequest
from strongroom.director.runs.tickets import open_any, open_for
from strongroom.engine.filesets.spec import FileSetSpec
from strongroom.engine.repository.snapshots import POOL_TAG, RUN_TAG
from strongroom.engine.repository.ticket_objects import GRANT_SECONDS
from strongroom.net.control.messages import (
    RestoreChoices,
    Script,
    SetBandwidth,
    StartBackup,
    StartEstimate,
    StartRestore,
    StartVerify,
    StorageTarget,
    TlsMode,
    ToAgent,
    VerifyChoices,
    encode_name,
)
from strongroom.net.control.restore_orders import ordered

_MOST_COUNTED: Final = 1 << 60


@dataclass(frozen=True, slots=True)
class StartMessage:
    """A message, the columns of the run that it determines, and lines for its log.

    ticket: stored for it in a repository, to be removed when the run has ended.
    """

    message: ToAgent
    changes: dict[str, Any] = field(default_factory=dict)
    lines: tuple[tuple[str, str], ...] = ()
    ticket: StoredTicket | None = None


def make_start(context: DirectorContext, record: Run) -> StartMessage:
    """The start message of a run that an agent does.

    Raises UnknownNameError or UsageError where the configuration has changed since it was queued,
    SnapshotNotFoundError, ConflictError, and what reading a repository raises.
    """
    if record.kind == "backup":
        return _backup(context, record)
    if record.kind == "restore":
        return _restore(context, record)
    if record.kind == "verify":
        return _verify(context, record)
    return StartMessage(
        StartEstimate(
            run_id=record.id,
            job=record.job,
            fileset=fileset_of(context, record.fileset),
            listing=RunRequest.of(record).listing,
        )
    )


def fileset_of(context: DirectorContext, name: str) -> FileSetSpec:
    """A FileSet in the format of start messages."""
    from strongroom.config.filesets import fileset_spec

    return fileset_spec(context.configuration.fileset(name))


def scripts_of(job: JobSettings | None) -> tuple[Script, ...]:
    """The scripts of a job that run on the client."""
    found = []
    for script in job.run_scripts if job is not None else ():
        if not script.on_client:
            continue
        moments = {"Before": ("before",), "AfterVSS": ("before",), "After": ("after",)}
        for when in moments.get(
            script.when, ("before", "after") if script.when == "Always" else ()
        ):
            found += [
                Script(
                    command=command,
                    when="before" if when == "before" else "after",
                    on_success=script.on_success,
                    on_failure=script.on_failure,
                    fail_job_on_error=script.fail_job_on_error,
                )
                for command in script.commands
            ]
    return tuple(found)


def verified_snapshot(context: DirectorContext, record: Run) -> Snapshot:
    """The snapshot that a verify run is about: the one named, or the newest of the job to verify.

    Raises SnapshotNotFoundError; SetBackError where the store shows less than is known.
    """
    if named := RunRequest.of(record).snapshot:
        return load_snapshot(context.catalog, named)
    configuration = context.configuration
    job = configuration.jobs.get(record.job)
    verified = configuration.jobs.get(job.job_to_verify) if job is not None else None
    if verified is None:
        raise UsageError(f"verify job {record.job} needs the directive Job To Verify")
    client = record.client or verified.client
    for missed in missed_snapshots(context.catalog):
        if (missed.job, missed.client) == (verified.name, client):
            raise SetBackError(f"{missed_text(missed)}. Name the snapshot to verify by its id")
    found = newest_snapshot(context.catalog, job=verified.name, client=client)
    if found is None:
        raise SnapshotNotFoundError(f"job {verified.name} has no snapshot of {client} to verify")
    return found


def _backup(context: DirectorContext, record: Run) -> StartMessage:
    job = context.configuration.job(record.job)
    client = context.configuration.client(record.client)
    _hold_to_quota(context, client)
    spec = fileset_of(context, record.fileset)
    digest = fileset_digest(spec)
    compared = "" if context.configuration.fileset(record.fileset).ignores_changes else digest
    decided = decide_level(
        context.catalog, job, record.client, record.storage, record.level, compared
    )
    pool = RunRequest.of(record).pools.get(decided.level, record.pool)
    lines: list[tuple[str, str]] = []
    if decided.level != record.level:
        lines.append(("info", f"{record.level} becomes {decided.level}: {decided.reason}"))
    lines += [
        ("warning", missed_text(missed))
        for missed in missed_snapshots(context.catalog)
        if (missed.job, missed.client, missed.storage)
        == (record.job, record.client, record.storage)
    ]
    expected_files, expected_bytes = _expected(context, record, digest)
    message = StartBackup(
        run_id=record.id,
        job=record.job,
        level=decided.level,  # type: ignore[arg-type]
        fileset=spec,
        storage=_target(context, record, record.storage),
        tuning=client.knobs,
        tags=(RUN_TAG + record.id, POOL_TAG + pool),
        share_below=client.share_below,
        parent=decided.parent,
        scripts=scripts_of(job),
        maximum_bytes_per_second=_bandwidth(context, record, job),
        maximum_run_seconds=job.longest_run_seconds(decided.level),
        expected_files=expected_files,
        expected_bytes=expected_bytes if decided.level == "full" else 0,
    )
    changes = {
        "level": decided.level,
        "parent": decided.parent,
        "pool": pool,
        "fileset_digest": digest,
    }
    return StartMessage(message, changes, tuple(lines))


def _expected(context: DirectorContext, record: Run, digest: str) -> tuple[int, int]:
    """How many files and bytes the last backup of the same FileSet found; 0: unknown."""
    wanted = RunFilter(
        job=record.job,
        client=record.client,
        kind="backup",
        states=("done", "incomplete"),
        limit=1,
    )
    for last in find_runs(context.catalog, wanted):
        if last.fileset_digest == digest:
            return _count(last, "files"), _count(last, "size_bytes")
    return 0, 0


def _count(record: Run, name: str) -> int:
    """A count from an agent; 0 if it is invalid."""
    value = record.summary.get(name)
    return value if isinstance(value, int) and 0 <= value < _MOST_COUNTED else 0


def _hold_to_quota(context: DirectorContext, client: ClientSettings) -> None:
    quota = client.hard_quota_bytes
    if not quota:
        return
    _, stored = totals_by_client(context.catalog, [client.name]).get(client.name, (0, 0))
    if stored >= quota:
        raise QuotaError(
            f"client {client.name} has stored {stored} bytes of the {quota} of its Hard Quota; "
            "remove snapshots, or raise it"
        )


def _restore(context: DirectorContext, record: Run) -> StartMessage:
    request = RunRequest.of(record)
    snapshot = load_snapshot(context.catalog, request.snapshot)
    paths = [bytes.fromhex(path) for path in request.paths]
    subpath = bytes.fromhex(request.subpath)
    wanted = [subpath] if subpath else paths
    snapshot, opened = open_any(context, snapshot, record.client, wanted, request.copies)
    ticket, grant, _ = opened
    target = bytes.fromhex(request.target)
    options = RestoreChoices(
        subpath=encode_name(subpath),
        in_place=request.in_place,
        overwrite=request.overwrite.value,
        delete=request.delete,
        dry_run=request.dry_run,
        tells_steps=request.dry_run,
        workers=request.workers,
        keeps_privileges=request.keeps_privileges,
    )
    if paths:
        from strongroom.engine.verify.sample import literal_pattern

        includes = tuple(encode_name(literal_pattern(path)) for path in paths)
        options = msgspec.structs.replace(options, includes=includes)
    job = context.configuration.jobs.get(record.job)
    message = StartRestore(
        run_id=record.id,
        job=record.job,
        storage=_target(context, record, snapshot.storage),
        ticket=ticket,
        grant=grant,
        target=encode_name(target),
        options=options,
        where=request.where,
        scripts=scripts_of(job),
        maximum_bytes_per_second=_bandwidth(context, record, job),
    )
    assert context.identity is not None  # else there would be no grant
    return StartMessage(
        ordered(context.identity, record.client, message, GRANT_SECONDS),
        {"snapshot": snapshot.id, "storage": snapshot.storage},
        opened.lines,
        ticket=StoredTicket(snapshot.storage, ticket.name),
    )


def _verify(context: DirectorContext, record: Run) -> StartMessage:
    snapshot = verified_snapshot(context, record)
    ticket, grant, lines = open_for(context, snapshot, record.client, [])
    message = StartVerify(
        run_id=record.id,
        job=record.job,
        storage=_target(context, record, snapshot.storage),
        ticket=ticket,
        grant=grant,
        options=VerifyChoices(reads_content=True),
    )
    return StartMessage(
        message,
        {"snapshot": snapshot.id},
        lines,
        ticket=StoredTicket(snapshot.storage, ticket.name),
    )


def _target(context: DirectorContext, record: Run, storage_name: str) -> StorageTarget:
    storage = context.configuration.storage(storage_name)
    client = context.configuration.client(record.client)
    return StorageTarget(
        address=storage.address,
        port=storage.port,
        server_name=storage.name,
        tls_mode=tls_mode_of(client, context.features(record.client)),
        cipher_suites=client.cipher_suites or storage.cipher_suites,
        repository_id=storage.devices[0] if storage.devices else "",
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


def limit_set(record: Run) -> SetBandwidth | None:
    """The limit that an operator set for an active run, as sent to its agent."""
    limit = RunRequest.of(record).limit_set_bytes_per_second
    if limit is None:
        return None
    return SetBandwidth(run_id=record.id, maximum_bytes_per_second=limit)


def _bandwidth(context: DirectorContext, record: Run, job: JobSettings | None) -> int:
    """What was asked for, else the lowest of what its resources set; bytes per second, 0: none."""
    if (set_limit := limit_set(record)) is not None:
        return set_limit.maximum_bytes_per_second
    if asked := RunRequest.of(record).maximum_bytes_per_second:
        return asked
    client = context.configuration.clients.get(record.client)
    storage = context.configuration.storages.get(record.storage)
    limits = [
        job.maximum_bandwidth_bytes_per_second if job is not None else 0,
        client.maximum_bandwidth_per_job_bytes_per_second if client is not None else 0,
        storage.maximum_bandwidth_per_job_bytes_per_second if storage is not None else 0,
    ]
    return min((limit for limit in limits if limit), default=0)
