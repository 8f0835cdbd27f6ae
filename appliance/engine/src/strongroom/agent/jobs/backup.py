"""A backup as a job of the agent."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from strongroom.agent.jobs.description import JobDescription
from strongroom.agent.jobs.repository import open_store
from strongroom.agent.put_keys import read_put_keys
from strongroom.base.errors import (
    EXIT_DONE,
    EXIT_INCOMPLETE,
    SnapshotNotFoundError,
    UsageError,
)
from strongroom.base.printable import printable
from strongroom.base.progress import Progress
from strongroom.engine.backup.fileset_options import with_fileset
from strongroom.engine.backup.options import BackupOptions, settle_tuning
from strongroom.engine.backup.report import BackupReport
from strongroom.engine.filesets.resolve import resolve_fileset
from strongroom.engine.scan.share_folders import narrowed, share_folders
from strongroom.engine.stores.capabilities import connect_ahead
from strongroom.engine.stores.limited import Limiter
from strongroom.net.control.messages import RunEnded, StartBackup
from strongroom.service.job_process.program import JobOutput
from strongroom.service.job_process.retry import persist
from strongroom.sources.source import Problem, Source

# This many problems are named in the log; the rest is counted.
MOST_LOGGED_PROBLEMS: Final = 2000


@dataclass(slots=True)
class _Attempt:
    report: BackupReport
    security: dict[str, Any]


def run_backup(
    description: JobDescription, request: StartBackup, output: JobOutput, limiter: Limiter
) -> RunEnded:
    """Make the snapshot; data sent before a lost connection is not sent again.

    Raises StrongroomError.
    """
    fileset = resolve_fileset(request.fileset, allow_commands=description.allow_commands)
    tuning = settle_tuning(description.tuning, request.tuning, spelling="directive")
    plain = BackupOptions(
        host=description.client,
        job=request.job,
        fileset=request.fileset.name,
        level=request.level,
        tags=tuple(sorted(set(request.tags))),
        parent=request.parent or None,
        tuning=replace(tuning, shards=min(tuning.shard_count(), description.processes)),
        cache_folder=os.fsencode(description.cache_folder) or None,
        share_below=_share_below(description, request),
    )
    options, notes = with_fileset(plain, fileset)
    for note in notes:
        output.log("info", note)
    if options.level == "full" and options.parent is not None:
        raise UsageError("a full backup is compared with no snapshot, but a parent was named")
    attempt = persist(
        lambda: _attempt(description, request, fileset.source, options, output, limiter), output
    )
    report = attempt.report
    for warning in report.warnings:
        output.log("warning", warning)
    tell_problems(report.problems, output)
    is_whole = report.is_complete
    return RunEnded(
        status="done" if is_whole else "incomplete",
        exit_code=EXIT_DONE if is_whole else EXIT_INCOMPLETE,
        snapshot="" if report.snapshot is None else report.snapshot.id,
        summary=report.summary(options),
        security=attempt.security,
    )


def _share_below(description: JobDescription, request: StartBackup) -> tuple[str, ...]:
    """What the director asks for, as far as the agent's own configuration allows it."""
    wanted = share_folders(request.share_below)
    bound = description.share_below
    return wanted if bound is None else narrowed(wanted, bound)


def _attempt(
    description: JobDescription,
    request: StartBackup,
    source: Source,
    options: BackupOptions,
    output: JobOutput,
    limiter: Limiter,
) -> _Attempt:
    store = open_store(description, request, limiter)
    connect_ahead(store.store, options.tuning.shard_count())
    # Imports numpy while the connection to a remote daemon is being made.
    from strongroom.engine.backup.backup import back_up

    try:
        repository = store.open(read_put_keys(description.identity_folder))
        security = store.security()
        if security.get("warning"):
            output.log("warning", str(security["warning"]))

        def make(wanted: BackupOptions) -> BackupReport:
            return back_up(repository, source, wanted, lambda: _shown(request, output))

        try:
            report = make(options)
        except SnapshotNotFoundError:
            if options.parent is None:
                raise
            output.log("warning", f"the parent {options.parent[:8]} no longer exists")
            report = make(replace(options, parent=None))
        return _Attempt(report, security)
    finally:
        store.store.close()


@contextmanager
def _shown(request: StartBackup, output: JobOutput) -> Iterator[Progress]:
    with output.shown_progress("backup") as progress:
        expected = (request.expected_files or None, request.expected_bytes or None)
        progress.total(*expected, is_estimate=True)
        yield progress


def tell_problems(problems: tuple[Problem, ...], output: JobOutput) -> None:
    """Log files that could not be read, up to a limit."""
    for logged, problem in enumerate(problems):
        if logged == MOST_LOGGED_PROBLEMS:
            output.log("warning", f"... and {len(problems) - logged} more files with problems")
            return
        level = "info" if problem.is_harmless else "warning"
        output.log(level, f"/{printable(problem.path)}: {problem.text}")  # type: ignore[arg-type]
