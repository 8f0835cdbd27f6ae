"""One job, in a process of its own: `python -m strongroom.daemons.agent.jobs.job`.

Standard input brings a JobDescription as one JSON line and later orders (job_messages); standard
output carries reports, one JSON line each; what anything prints by mistake goes to standard
error. SIGTERM, an order or the end of the input stop the job within a second: what it had begun
is removed, what was stored is found by the next run.
"""

from __future__ import annotations

import fcntl
import os
import sys
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from strongroom.daemons.agent.jobs.scripts import ScriptRules, run_script
from strongroom.daemons.job_process.bandwidth import SharedBucket
from strongroom.daemons.job_process.input import JobInput
from strongroom.daemons.job_process.messages import JobDescription, JobEnded
from strongroom.daemons.job_process.output import JobOutput
from strongroom.errors import (
    EXIT_BUG,
    CancelledError,
    OperatingSystemError,
    ScriptError,
    StrongroomError,
    TimeLimitError,
    UsageError,
)
from strongroom.net.control.messages import StartBackup, StartRestore, StartVerify

if TYPE_CHECKING:
    from strongroom.daemons.job_process.messages import Request
    from strongroom.net.control.messages import Script

_KINDS: Final = {
    "StartBackup": "backup",
    "StartRestore": "restore",
    "StartVerify": "verify",
    "StartEstimate": "estimate",
}


def kind_of(request: Request) -> str:
    """backup, restore, verify or estimate."""
    return _KINDS[type(request).__name__]


@dataclass(slots=True)
class _Job:
    description: JobDescription
    input: JobInput
    output: JobOutput
    bucket: SharedBucket

    def run(self) -> JobEnded:
        """Scripts, work, scripts."""
        scripts = getattr(self.description.request, "scripts", ())
        try:
            self.input.listen(self.bucket.set_limit, self.description.maximum_run_seconds)
            self._lock()
            for script in scripts:
                if script.when == "before":
                    self._script(script, "")
            ended = self._work()
            self.input.ignore()
        except BaseException as error:  # noqa: BLE001 - it is told, after the scripts have run
            self.input.ignore()
            ended = _ended_by(error, self.output)
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
        """Wait until no other process does this run: one that lost its agent may take a moment."""
        descriptor = os.open(
            self.description.lock_file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600
        )
        fcntl.flock(descriptor, fcntl.LOCK_EX)

    def _work(self) -> JobEnded:
        request = self.description.request
        if isinstance(request, StartBackup):
            from strongroom.daemons.agent.jobs.backup import run_backup

            return run_backup(self.description, request, self.output, self.bucket)
        if isinstance(request, StartRestore):
            from strongroom.daemons.agent.jobs.restore_and_verify import run_restore

            return run_restore(self.description, request, self.output, self.bucket)
        if isinstance(request, StartVerify):
            from strongroom.daemons.agent.jobs.restore_and_verify import run_verify

            return run_verify(self.description, request, self.output, self.bucket)
        from strongroom.daemons.agent.jobs.estimate import run_estimate

        return run_estimate(self.description, request, self.output)

    def _script(self, script: Script, status: str) -> None:
        """Raises ScriptError where the script's failure is the job's."""
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
            self.output.log("warning", f"{error}; the job goes on all the same")


def _values(description: JobDescription, status: str) -> dict[str, str]:
    request = description.request
    fileset = getattr(request, "fileset", None)
    return {
        "%": "%",
        "c": description.client,
        "d": description.director,
        "e": {"done": "OK", "incomplete": "OK -- with warnings"}.get(status, status.capitalize()),
        "f": "" if fileset is None else fileset.name,
        "i": request.run_id,
        "j": f"{request.job}.{request.run_id}",
        "l": getattr(request, "level", "").capitalize(),
        "n": request.job,
        "t": kind_of(request).capitalize(),
    }


def _ended_by(error: BaseException, output: JobOutput) -> JobEnded:
    if isinstance(error, OSError):
        names = [os.fsdecode(name) for name in (error.filename,) if isinstance(name, str | bytes)]
        text = ": ".join([*names, error.strerror or str(error)])
        error = OperatingSystemError(text)
    if isinstance(error, StrongroomError):
        is_cancelled = isinstance(error, CancelledError | TimeLimitError)
        return JobEnded(
            status="cancelled" if is_cancelled else "failed",
            exit_code=error.exit_code,
            error_id=error.error_id,
            error=str(error),
        )
    output.log("error", "".join(traceback.format_exception(error)))
    return JobEnded(
        status="failed",
        exit_code=EXIT_BUG,
        error_id="bug",
        error=f"this is a fault in Strongroom, please report it: {type(error).__name__}: {error}",
    )


def _failed_after(ended: JobEnded, error: ScriptError) -> JobEnded:
    return msgspec.structs.replace(
        ended,
        status="failed",
        exit_code=error.exit_code,
        error_id=error.error_id,
        error=f"the job itself was {ended.status}, but a script after it failed: {error}",
    )


def main() -> int:
    """Do what standard input says; gives the exit code, which the last report has too."""
    # numpy would start a thread for every core that nothing of ours uses.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    orders = JobInput()
    try:
        description = orders.description()
    except UsageError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    bucket = SharedBucket(description.maximum_bytes_per_second)
    writes = isinstance(description.request, StartBackup)
    output = JobOutput((lambda: bucket.taken_bytes) if writes else (lambda: 0))
    ended = _Job(description, orders, output, bucket).run()
    orders.close()
    output.ended(ended)
    return ended.exit_code


if __name__ == "__main__":
    sys.exit(main())
