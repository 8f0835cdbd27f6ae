"""Runs a job process of the director, and forwards its reports to its run.

Expensive work is not done in the director itself: it stays small and responsive, and a crash of a
job process does not affect it. When a run is cancelled, or the director stops, the process gets
Stop; if it does not end in time it is killed with all processes it started.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from strongroom.daemons.job_process.messages import JobLog
from strongroom.daemons.job_process.process import JobProcess, JobProgram
from strongroom.errors import JobDiedError

if TYPE_CHECKING:
    from strongroom.daemons.director.own_jobs.descriptions import OwnJobDescription
    from strongroom.daemons.director.runs.active_run import ActiveRun
    from strongroom.daemons.director.runs.protocols import RunControl
    from strongroom.daemons.job_process.messages import JobEnded, JobProgress

PROGRAM: Final = JobProgram("strongroom.daemons.director.own_jobs.job")


async def run_own_job(
    description: OwnJobDescription, active: ActiveRun, runs: RunControl
) -> JobEnded:
    """Run a job process for a run; cancelling the call ends the process first.

    Raises JobDiedError when something else stopped it, and errors of writing to the run.
    """

    async def report(message: JobProgress | JobLog) -> None:
        if isinstance(message, JobLog):
            await runs.say(active, message.level, message.text)
            return
        active.progress = message.of_run(active.record.id)
        runs.watchers.wake(active.record.id)

    process = JobProcess(PROGRAM, description, report)
    running = asyncio.create_task(process.run())
    try:
        ended = await asyncio.shield(running)
    except asyncio.CancelledError:
        process.stop()
        try:
            await asyncio.wait((running,), timeout=PROGRAM.stop_seconds)
        finally:
            # An unavailable catalog may delay its last reports.
            running.cancel()
            await asyncio.wait((running,))
        raise
    if ended.status == "cancelled":
        raise JobDiedError(f"a job process of the director was stopped: {ended.error}")
    return ended
