"""Starts the jobs that run when their client connects (Run On Incoming Connect Interval)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from strongroom import clock
from strongroom.clock import SECOND_NS
from strongroom.daemons.director.catalog.runs import last_runs
from strongroom.daemons.director.runs.plan import plan
from strongroom.daemons.director.runs.requests import new_run
from strongroom.errors import StrongroomError

if TYPE_CHECKING:
    from strongroom.daemons.director.context import DirectorContext
    from strongroom.daemons.director.runs.protocols import RunControl

_log = logging.getLogger(__name__)


async def start_on_connect(context: DirectorContext, runs: RunControl, client: str) -> None:
    """Enter a run of each such job of this client that has not run for long enough."""
    for job in context.configuration.jobs.values():
        interval_seconds = job.run_on_incoming_connect_interval_seconds
        if not interval_seconds or not job.enabled or job.client != client:
            continue
        last = await context.in_thread(last_runs, context.catalog)
        run = last.get(job.name)
        if run is not None and (
            not run.is_final
            or (run.went_well and clock.now_ns() - run.scheduled_ns < interval_seconds * SECOND_NS)
        ):
            continue
        try:
            planned = plan(context.configuration, job.name)
            record = new_run(planned, requested_by="connection")
        except StrongroomError as error:
            _log.warning("job %s cannot be started: %s", job.name, error)
            continue
        await runs.submit(record, ["its client has connected"])
