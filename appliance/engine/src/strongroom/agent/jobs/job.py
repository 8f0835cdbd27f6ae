"""One job, in its own process: `python -m strongroom.agent.jobs.job`.

Scripts before the job, the job itself, scripts after it. See job_process for its input and
output.
"""

from __future__ import annotations

import fcntl
import os
import sys
from dataclasses import dataclass
from typing import Final

import msgspec

from strongroom.agent.jobs.backup import run_backup, tell_problems
from strongroom.agent.jobs.description import JobDescription, kind_of, scripts_of
from strongroom.agent.jobs.scripts import ScriptRules, run_script
from strongroom.base import clock
from strongroom.base.errors import EXIT_DONE, ScriptError
from strongroom.base.printable import printable
from strongroom.engine.backup.tree_count import estimate
from strongroom.engine.filesets.resolve import resolve_fileset
from strongroom.engine.knobs.settings import KnobSettings, merged
from strongroom.engine.knobs.table import knob_named
from strongroom.engine.stores.limited import SharedBucket
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
    run_program,
)

# Paths are joined, so that a million of them do not become a million lines of the log.
_LONGEST_TEXT: Final = 32 << 10


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
