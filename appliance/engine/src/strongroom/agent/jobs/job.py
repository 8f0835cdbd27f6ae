"""One job, in its own process: `python -m strongroom.agent.jobs.job`.

Scripts before the job, the job itself, scripts after it: a backup or an estimate here, the others
in `restore_and_verify`. See job_process for its input and output.
"""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from strongroom.agent.jobs.description import JobDescription, kind_of, scripts_of
from strongroom.agent.jobs.repository import open_store
from strongroom.agent.jobs.scripts import ScriptRules, run_script
from strongroom.agent.put_keys import read_put_keys
from strongroom.base import clock
from strongroom.base.errors import (
    EXIT_DONE,
    EXIT_INCOMPLETE,
    ScriptError,
    SnapshotNotFoundError,
    UsageError,
)
from strongroom.base.printable import printable
from strongroom.base.progress import Progress
from strongroom.engine.backup.fileset_options import with_fileset
from strongroom.engine.backup.options import BackupOptions, settle_tuning
from strongroom.engine.backup.report import BackupReport
from strongroom.engine.backup.tree_count import estimate
from strongroom.engine.filesets.resolve import resolve_fileset
from strongroom.engine.knobs.settings import KnobSettings, merged
from strongroom.engine.knobs.table import knob_named
from strongroom.engine.scan.share_folders import narrowed, share_folders
from strongroom.engine.stores.capabilities import connect_ahead
from strongroom.engine.stores.limited import Limiter, SharedBucket
from strongroom.net.control.messages import (
    RunEnded,
    Script,
    StartBackup,
    StartEstimate,
    StartRestore,
    StartVerify,
)
from strongroom.service.job_process.program import (
    JobInput,
    JobOutput,
    ended_by,
    give_way,
    persist,
    run_program,
)
from strongroom.sources.source import Problem, Source

# Paths are joined, so that a million of them do not become a million lines of the log.
_LONGEST_TEXT: Final = 32 << 10
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
        tuning=msgspec.structs.replace(
            tuning, shards=min(tuning.shard_count(), description.processes)
        ),
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
            report = make(msgspec.structs.replace(options, parent=None))
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


def run_estimate(
    description: JobDescription, request: StartEstimate, output: JobOutput
) -> RunEnded:
    """Walk the FileSet. Raises StrongroomError."""
    started = clock.elapsed_seconds()
    fileset = resolve_fileset(request.fileset, allow_commands=description.allow_commands)
    for note in fileset.notes:
        output.log("info", note)
    lines = _Lines(output)
    with output.shown_progress("estimate") as progress:
        counts = estimate(fileset, progress, lines.add if request.listing else None)
    lines.flush()
    tell_problems(tuple(counts.problems), output)
    return RunEnded(
        status="done",
        exit_code=EXIT_DONE,
        summary={
            "type": "summary",
            "files": counts.files,
            "directories": counts.directories,
            "others": counts.others,
            "size_bytes": counts.size_bytes,
            "problems": len(counts.problems),
            "elapsed_seconds": round(clock.elapsed_seconds() - started, 3),
        },
    )


class _Lines:
    def __init__(self, output: JobOutput) -> None:
        self._output = output
        self._lines: list[str] = []
        self._size = 0

    def add(self, directory: bytes, names: list[bytes]) -> None:
        prefix = "/" + (printable(directory) + "/" if directory else "")
        for name in names:
            self._lines.append(prefix + ("" if name == b"." else printable(name)))
            self._size += len(self._lines[-1]) + 1
            if self._size > _LONGEST_TEXT:
                self.flush()

    def flush(self) -> None:
        if self._lines:
            self._output.log("info", "\n".join(self._lines))
            self._lines, self._size = [], 0


@dataclass(slots=True)
class _Job:
    description: JobDescription
    input: JobInput
    output: JobOutput
    bucket: SharedBucket

    def run(self) -> RunEnded:
        """Scripts, the job, scripts."""
        scripts = scripts_of(self.description.start)
        try:
            self.input.listen(self.bucket.set_limit, self.description.maximum_run_seconds)
            give_way(_niceness(self.description))
            self._lock()
            for script in scripts:
                if script.when == "before":
                    self._script(script, "")
            ended = self._execute()
            self.input.ignore()
        except BaseException as error:  # noqa: BLE001 - it is reported, after the scripts have run
            self.input.ignore()
            ended = ended_by(error, self.output)
        succeeded = ended.status in ("done", "incomplete")
        for script in scripts:
            if script.when == "after" and (script.on_success if succeeded else script.on_failure):
                try:
                    self._script(script, ended.status)
                except ScriptError as error:
                    if succeeded:
                        ended = _failed_after(ended, error)
                    else:
                        self.output.log("error", str(error))
        return ended

    def _lock(self) -> None:
        """Wait until no other process executes this run: one that lost its agent may still end."""
        descriptor = os.open(
            self.description.lock_file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600
        )
        fcntl.flock(descriptor, fcntl.LOCK_EX)

    def _execute(self) -> RunEnded:
        start = self.description.start
        if isinstance(start, StartBackup):
            return run_backup(self.description, start, self.output, self.bucket)
        if isinstance(start, StartRestore):
            from strongroom.agent.jobs.restore_and_verify import run_restore

            return run_restore(self.description, start, self.output, self.bucket)
        if isinstance(start, StartVerify):
            from strongroom.agent.jobs.restore_and_verify import run_verify

            give_way()
            return run_verify(self.description, start, self.output, self.bucket)
        return run_estimate(self.description, start, self.output)

    def _script(self, script: Script, status: str) -> None:
        """Raises ScriptError where the script's failure fails the job."""
        self.output.log("info", f"{script.when} the job: {script.command}")
        rules = ScriptRules(
            self.description.script_folders,
            self.description.script_seconds,
            _values(self.description, status),
        )
        try:
            run_script(script, rules, lambda line: self.output.log("info", line))
        except ScriptError as error:
            if script.fail_job_on_error:
                raise
            self.output.log("warning", f"{error}; the job continues")


def _niceness(description: JobDescription) -> int:
    start = description.start
    directed = start.tuning if isinstance(start, StartBackup) else KnobSettings()
    knobs = (knob_named("nice"),)
    return int(merged(description.tuning, directed, spelling="directive", knobs=knobs)["nice"])


def _values(description: JobDescription, status: str) -> dict[str, str]:
    start = description.start
    fileset = start.fileset if isinstance(start, StartBackup | StartEstimate) else None
    return {
        "%": "%",
        "c": description.client,
        "d": description.director,
        "e": {"done": "OK", "incomplete": "OK -- with warnings"}.get(status, status.capitalize()),
        "f": "" if fileset is None else fileset.name,
        "i": start.run_id,
        "j": f"{start.job}.{start.run_id}",
        "l": start.level.capitalize() if isinstance(start, StartBackup) else "",
        "n": start.job,
        "t": kind_of(start).capitalize(),
    }


def _failed_after(ended: RunEnded, error: ScriptError) -> RunEnded:
    return msgspec.structs.replace(
        ended,
        status="failed",
        exit_code=error.exit_code,
        error_id=error.error_id,
        error=f"the job itself was {ended.status}, but a script after it failed: {error}",
    )


def run_job(description: JobDescription, job_input: JobInput, output: JobOutput) -> RunEnded:
    """Do the job that `description` describes."""
    bucket = SharedBucket(description.maximum_bytes_per_second)
    if isinstance(description.start, StartBackup):
        output.count_stored_bytes(lambda: bucket.taken_bytes)
    return _Job(description, job_input, output, bucket).run()


def main() -> int:
    """Run the job on standard input; returns the exit code."""
    return run_program(msgspec.json.Decoder(JobDescription), run_job)


if __name__ == "__main__":
    sys.exit(main())
