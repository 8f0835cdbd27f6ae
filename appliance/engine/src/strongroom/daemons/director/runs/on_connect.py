"""Starts the jobs that run when their client connects (Run On Incoming Connect Interval).

After a run that failed the next one begins no sooner than PAUSE_NS later: an agent that connects
and fails again and again must not fill the catalog with runs.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from msgspec import structs

from strongroom import clock
from strongroom.clock import SECOND_NS
from strongroom.daemons.director.catalog.runs import last_runs
from strongroom.daemons.director.runs.plan import plan
from strongroom.daemons.director.runs.requests import new_run
from strongroom.errors import StrongroomError

if TYPE_CHECKING:
    from strongroom.daemons.director.context import DirectorContext
    from strongroom.daemons.director.runs.protocols import RunControl

PAUSE_NS: Final = 60 * SECOND_NS

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
            if run is not None:
                last_ns = max(run.scheduled_ns, run.started_ns)
                earliest_ns = min(last_ns, record.scheduled_ns) + PAUSE_NS
                record = structs.replace(record, not_before_ns=earliest_ns)
        except StrongroomError as error:
            _log.warning("job %s cannot be started: %s", job.name, error)
            continue
        await runs.submit(record, ["its client has connected"])
