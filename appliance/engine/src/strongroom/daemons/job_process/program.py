"""The life of a job process: its description, the job, its last report.

Standard input brings the description as one JSON line and later SetLimit or Stop (messages);
standard output carries reports, one JSON line each; other output goes to standard error.
SIGTERM, Stop or the end of the input stop the job within a second: unfinished objects are removed,
what was stored is found by the next run.
"""

from __future__ import annotations

import os
import sys
import traceback
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from strongroom.daemons.job_process.input import JobInput
from strongroom.daemons.job_process.messages import JobEnded
from strongroom.daemons.job_process.output import JobOutput
from strongroom.errors import (
    EXIT_BUG,
    CancelledError,
    MemoryLimitError,
    OperatingSystemError,
    StrongroomError,
    TimeLimitError,
    UsageError,
)
from strongroom.printable import guard_standard_streams
from strongroom.process_memory import forbid_inspection, limit_memory

if TYPE_CHECKING:
    from collections.abc import Callable

    import msgspec

    from strongroom.daemons.job_process.input import Description

# With it the kernel gives the process the lowest priority of best effort for disks, too.
_NICE: Final = 15


def run_program(
    decoder: msgspec.json.Decoder[Description],
    do: Callable[[Description, JobInput, JobOutput], JobEnded],
) -> int:
    """Run the job on standard input; returns the exit code, which the last report has too.

    `do` calls `listen` as soon as it can be stopped; whatever it raises ends the job.
    """
    # numpy would start a thread for every core, which nothing here uses.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    guard_standard_streams()
    forbid_inspection()
    limit_memory()
    job_input = JobInput()
    try:
        description = job_input.description(decoder)
    except UsageError as error:
        sys.stderr.write(f"{error}\n")  # noqa: TID251 - it is guarded
        return error.exit_code
    output = JobOutput()
    try:
        ended = do(description, job_input, output)
    except BaseException as error:  # noqa: BLE001 - it is reported
        job_input.ignore()
        ended = ended_by(error, output)
    job_input.close()
    output.ended(ended)
    return ended.exit_code


def give_way() -> None:
    """Let restores and backups go first from now on: this job is housekeeping."""
    # A sandbox that forbids it must not end the job.
    with suppress(OSError):
        os.nice(_NICE)


def ended_by(error: BaseException, output: JobOutput) -> JobEnded:
    """The end of a job that raised this; an internal error is logged with its traceback."""
    if isinstance(error, OSError):
        names = [os.fsdecode(name) for name in (error.filename,) if isinstance(name, str | bytes)]
        text = ": ".join([*names, error.strerror or str(error)])
        error = OperatingSystemError(text)
    if isinstance(error, MemoryError):
        error = MemoryLimitError("the job takes more memory than it may have")
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
