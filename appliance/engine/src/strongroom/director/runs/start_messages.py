"""The messages that start runs on agents, and the level of a backup. All of it blocks.

Every snapshot is complete and restores on its own, so a backup can be compared with any existing
one of the same FileSet: an incremental backup uses the newest, or where that lacks half of what the
newest whole one has, as when a disk was not mounted, that one. A differential one uses the last
full one, or if that is gone the first that came after it, else as an incremental: that minimizes
what is read again. Without any an incremental or differential backup becomes full. So it does when
the last full one is older than Max Full Interval, or when a full one failed and Rerun Failed Levels
is set. An incremental one becomes differential by Max Diff Interval. Age counts by the server's
clock, from when backups were made, whether or not their snapshots still exist.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import msgspec
from blake3 import blake3

from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.base.errors import QuotaError
from strongroom.base.quantities import lowest_limit
from strongroom.config.settings.client import ClientSettings
from strongroom.config.settings.job import JobSettings
from strongroom.director.catalog.database import Catalog
from strongroom.director.catalog.runs import find_runs, last_failed_level
from strongroom.director.catalog.snapshots import (
    missed_snapshots,
    missed_text,
    newest_snapshot,
    oldest_snapshot,
    totals_by_client,
)
from strongroom.director.context import DirectorContext
from strongroom.director.results.runs import Run, RunFilter
from strongroom.director.results.snapshots import Snapshot
from strongroom.director.runs.active_run import StoredTicket
from strongroom.director.runs.requests import RunRequest
from strongroom.engine.filesets.spec import FileSetSpec
from strongroom.engine.repository.snapshots import POOL_TAG, RUN_TAG
from strongroom.net.control.messages import (
    Script,
    SetBandwidth,
    StartBackup,
    StartEstimate,
    StorageTarget,
    TlsMode,
    ToAgent,
)

_MOST_COUNTED: Final = 1 << 60
_NONE_YET = "there is no snapshot of this job yet"


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
    """The start message of a backup or an estimate; `tickets` has those of runs that read.

    Raises UnknownNameError or UsageError where the configuration has changed since it was queued,
    and CatalogError.
    """
    if record.kind == "backup":
        return _backup(context, record)
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
        storage=target_of(context, record, record.storage),
        tuning=client.knobs,
        tags=(RUN_TAG + record.id, POOL_TAG + pool),
        share_below=client.share_below,
        parent=decided.parent,
        scripts=scripts_of(job),
        maximum_bytes_per_second=bandwidth_of(context, record, job),
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


def target_of(context: DirectorContext, record: Run, storage_name: str) -> StorageTarget:
    """Where the data of a run goes or comes from."""
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


def bandwidth_of(context: DirectorContext, record: Run, job: JobSettings | None) -> int:
    """What was asked for, else the lowest of what its resources set; bytes per second, 0: none."""
    if (set_limit := limit_set(record)) is not None:
        return set_limit.maximum_bytes_per_second
    if asked := RunRequest.of(record).maximum_bytes_per_second:
        return asked
    client = context.configuration.clients.get(record.client)
    storage = context.configuration.storages.get(record.storage)
    return lowest_limit(
        job.maximum_bandwidth_bytes_per_second if job is not None else 0,
        client.maximum_bandwidth_per_job_bytes_per_second if client is not None else 0,
        storage.maximum_bandwidth_per_job_bytes_per_second if storage is not None else 0,
    )


class LevelDecision(NamedTuple):
    """The level, the id of the snapshot to compare with ("" for none), and why it was raised."""

    level: str
    parent: str
    reason: str


def fileset_digest(spec: FileSetSpec) -> str:
    """A digest, 32 digits, of what a FileSet selects, not of how that is stored."""
    chosen = msgspec.structs.replace(
        spec,
        name="",
        includes=tuple(
            msgspec.structs.replace(
                include,
                options=tuple(
                    msgspec.structs.replace(options, compression=None, signature=None)
                    for options in include.options
                ),
            )
            for include in spec.includes
        ),
    )
    return blake3(msgspec.json.encode(chosen)).hexdigest(16)


def decide_level(
    catalog: Catalog, job: JobSettings, client: str, storage: str, level: str, digest: str
) -> LevelDecision:
    """Decide about a backup that was requested as `level`.

    digest: of its FileSet now, "" where a change of it does not matter.
    """
    if level == "full":
        return LevelDecision("full", "", "")
    known = _Known(catalog, job.name, client, storage, digest)
    newest = known.newest()
    if newest is None:
        return LevelDecision("full", "", known.why_none())
    full_ns = known.last_ns("full")
    now_ns = clock.now_ns()
    if job.max_full_interval_seconds and not full_ns:
        reason = "Max Full Interval is set, and it is not known when the last full backup was"
        return LevelDecision("full", "", reason)
    if _is_older(full_ns, job.max_full_interval_seconds, now_ns):
        return LevelDecision("full", "", "the last full backup is older than Max Full Interval")
    failed = ""
    if job.rerun_failed_levels:
        failed = last_failed_level(catalog, job.name, client, full_ns)
    if failed == "full":
        return LevelDecision("full", "", "the last full backup failed")
    reason = ""
    if level == "incremental":
        since_ns = max(full_ns, known.last_ns("differential"))
        if since_ns and _is_older(since_ns, job.max_diff_interval_seconds, now_ns):
            reason = "the last differential backup is older than Max Diff Interval"
        elif failed == "differential":
            reason = "the last differential backup failed"
    if level == "differential" or reason:
        return LevelDecision("differential", known.beginning(full_ns) or known.best(newest), reason)
    return LevelDecision("incremental", known.best(newest), "")


class _Known(NamedTuple):
    """The snapshots of a job on a client in a storage; `digest`: only of this FileSet, "": any."""

    catalog: Catalog
    job: str
    client: str
    storage: str
    digest: str

    def newest(self, **wanted: Any) -> Snapshot | None:
        """Of the existing snapshots, whatever their level: each is complete."""
        return newest_snapshot(**self._asdict(), **wanted)

    def best(self, newest: Snapshot) -> str:
        """The one to compare with of which the least is read again."""
        whole = self.newest(whole=True) if newest.missing_paths else None
        if whole and (newest.files * 2 <= whole.files or newest.bytes * 2 <= whole.bytes):
            return whole.id
        return newest.id

    def last_ns(self, level: str) -> int:
        """When a level was last backed up, even if its snapshot is gone; 0: unknown."""
        found = self.newest(levels=(level,), with_removed=True)
        return found.server_ns if found else 0

    def beginning(self, since_ns: int) -> str:
        """The first existing one of those received since, or ""."""
        found = oldest_snapshot(**self._asdict(), since_ns=since_ns)
        return found.id if found else ""

    def why_none(self) -> str:
        """Why there is nothing to compare with."""
        of_any = self._replace(digest="")
        if of_any.newest():
            return "the FileSet has changed since the last backup"
        was_one = of_any.newest(with_removed=True)
        return "no snapshot of this job is left" if was_one else _NONE_YET


def _is_older(time_ns: int, interval_seconds: int, now_ns: int) -> bool:
    return bool(interval_seconds) and now_ns - time_ns > interval_seconds * SECOND_NS
