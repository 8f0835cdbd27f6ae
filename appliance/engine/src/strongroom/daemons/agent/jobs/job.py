"""One job, in a process of its own: `python -m strongroom.daemons.agent.jobs.job`.

Scripts before the job, the job itself, scripts after it. See job_process for its input and
output.
"""

from __future__ import annotations

import fcntl
import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from strongroom.daemons.agent.jobs.bandwidth import SharedBucket
from strongroom.daemons.agent.jobs.description import JobDescription, kind_of, scripts_of
from strongroom.daemons.agent.jobs.scripts import ScriptRules, run_script
from strongroom.daemons.job_process.program import ended_by, give_way, run_program
from strongroom.errors import ScriptError
from strongroom.net.control.messages import StartBackup, StartEstimate, StartRestore, StartVerify

if TYPE_CHECKING:
    from strongroom.daemons.job_process.input import JobInput
    from strongroom.daemons.job_process.messages import JobEnded
    from strongroom.daemons.job_process.output import JobOutput
    from strongroom.net.control.messages import Script


@dataclass(slots=True)
class _Job:
    description: JobDescription
    input: JobInput
    output: JobOutput
    bucket: SharedBucket

    def run(self) -> JobEnded:
        """Scripts, the job, scripts."""
        scripts = scripts_of(self.description.start)
        try:
            self.input.listen(self.bucket.set_limit, self.description.maximum_run_seconds)
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

    def _execute(self) -> JobEnded:
        start = self.description.start
        if isinstance(start, StartBackup):
            from strongroom.daemons.agent.jobs.backup import run_backup

            return run_backup(self.description, start, self.output, self.bucket)
        if isinstance(start, StartRestore):
            from strongroom.daemons.agent.jobs.restore_and_verify import run_restore

            return run_restore(self.description, start, self.output, self.bucket)
        if isinstance(start, StartVerify):
            from strongroom.daemons.agent.jobs.restore_and_verify import run_verify

            give_way()
            return run_verify(self.description, start, self.output, self.bucket)
        from strongroom.daemons.agent.jobs.estimate import run_estimate

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


def _failed_after(ended: JobEnded, error: ScriptError) -> JobEnded:
    return msgspec.structs.replace(
        ended,
        status="failed",
        exit_code=error.exit_code,
        error_id=error.error_id,
        error=f"the job itself was {ended.status}, but a script after it failed: {error}",
    )


def run_job(description: JobDescription, job_input: JobInput, output: JobOutput) -> JobEnded:
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
