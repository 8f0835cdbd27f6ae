"""What the director does around runs: its own scripts, another attempt, retention, the report.

After the end of a run, in this order: scripts, another attempt (Reschedule On Error), retention of
the job's snapshots after a backup that made one, and the report to the destinations of Messages.
None of it changes how the run ended; failures are in the run's log.

The progress is in the catalog with the run, from the moment of its end: after a restart the
director continues from there. Another attempt is added in one transaction with its progress, so
it happens once; scripts and reports may run twice, and must be idempotent.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from strongroom import clock
from strongroom.clock import SECOND_NS
from strongroom.daemons.director.catalog.retry import outlast
from strongroom.daemons.director.catalog.runs import (
    AFTERMATH,
    NewLine,
    change_run,
    load_run,
    new_run_id,
)
from strongroom.daemons.director.runs.duplicates import REPLACED_ID
from strongroom.daemons.director.runs.pings import queue_ping
from strongroom.daemons.director.runs.reports import send_reports
from strongroom.daemons.director.runs.requests import companions
from strongroom.daemons.director.runs.retention import apply_retention, groups_of
from strongroom.daemons.director.runs.run_request import RunRequest
from strongroom.daemons.director.runs.scripts import filled, run_command
from strongroom.errors import ScriptError, StrongroomError, UnknownNameError

if TYPE_CHECKING:
    from collections.abc import Callable

    from strongroom.config.settings.job import JobSettings
    from strongroom.config.settings.run_scripts import RunScript
    from strongroom.daemons.director.catalog.runs import RunRecord
    from strongroom.daemons.director.context import DirectorContext
    from strongroom.daemons.director.runs.active_run import ActiveRun
    from strongroom.daemons.director.runs.protocols import RunControl, RunNotices

_FIRST_PAUSE_SECONDS: Final = 60
_LONGEST_PAUSE_SECONDS: Final = 3600

_log = logging.getLogger(__name__)


class DirectorAftermath:
    """See the module."""

    def __init__(
        self,
        context: DirectorContext,
        retention_obstacle: Callable[[], str],
        notices: RunNotices,
    ) -> None:
        """retention_obstacle: why retention is suspended now, "" if it is not."""
        self._context = context
        self._retention_obstacle = retention_obstacle
        self._notices = notices

    async def before(self, active: ActiveRun, runs: RunControl) -> None:
        """Run the director's scripts before a run, and start the jobs of its Run directives.

        ScriptError when a required script fails.
        """
        await self._notices.started(active.record)
        for script in self._scripts(active.record, ("Before", "AfterVSS", "Always")):
            for command in script.commands:

                async def say(level: str, text: str) -> None:
                    await runs.say(active, level, text)

                try:
                    words = filled(command, active.record, self._context.name)
                    await run_command(words, say)
                except ScriptError as error:
                    if script.fail_job_on_error:
                        raise
                    await say("warning", str(error))

        if active.record.attempt == 1:
            for companion in companions(self._context.configuration, active.record):
                if await self._is_known(companion.id):
                    continue  # a director before us started it
                await runs.say(active, "info", f"starts run {companion.id} along with it")
                runs.spawn(_submit(runs, companion))

    async def after(self, run_id: str, runs: RunControl) -> None:
        """Do the steps after the end of a run, from the stored progress."""
        context = self._context
        record = await outlast(context.in_thread, load_run, context.catalog, run_id)
        if not record.aftermath:
            return
        if record.kind == "backup":
            errors, of = context.backup_errors, (record.job, record.client)
            errors[of] = errors.get(of, 0) + record.errors
        steps = (self._run_scripts, self._try_again, self._conclude)
        for step in steps[AFTERMATH.index(record.aftermath) :]:
            try:
                await step(record, runs)
            except Exception as error:  # noqa: BLE001 - the next step follows in any case
                _log.exception("run %s: not all was done after its end", record.id)
                await self._say(record, runs, "error", f"after its end: {error}")
        await self._note(record, "")
        await self._notices.ended(record)

    async def _conclude(self, record: RunRecord, runs: RunControl) -> None:
        if record.went_well:
            await self._forget(record, runs)
        if record.error_id == REPLACED_ID:
            # One that waits instead: a client that is offline for weeks needs no mail a night.
            return
        try:
            await outlast(self._context.in_thread, send_reports, self._context, record)
            await outlast(self._context.in_thread, queue_ping, self._context, record)
        except (StrongroomError, OSError) as error:
            await self._say(record, runs, "warning", f"the report could not be sent: {error}")

    async def _run_scripts(self, record: RunRecord, runs: RunControl) -> None:
        async def say(level: str, text: str) -> None:
            await self._say(record, runs, level, text)

        scripts = [
            script
            for script in self._scripts(record, ("After", "Always"))
            if record.started_ns and (script.on_success if record.went_well else script.on_failure)
        ]
        for script in scripts:
            for command in script.commands:
                try:
                    await run_command(filled(command, record, self._context.name), say)
                except ScriptError as error:
                    await say("error", str(error))
        if scripts:
            await self._note(record, AFTERMATH[1])

    async def _try_again(self, record: RunRecord, runs: RunControl) -> None:
        job = self._context.configuration.jobs.get(record.job)
        if not record.started_ns or record.state != "failed":
            return
        if job is None or not job.reschedule_on_error:
            return
        most = job.reschedule_times
        if most and record.attempt > most:
            await self._say(record, runs, "info", f"not tried again after {most} attempts")
            return
        now_ns = clock.now_ns()
        planned = RunRequest.of(record).level
        again = type(record)(
            id=new_run_id(),
            job=record.job,
            client=record.client,
            fileset=record.fileset,
            storage=record.storage,
            pool=record.pool,
            level=record.level if planned is None else planned,
            kind=record.kind,
            state="waiting",
            priority=record.priority,
            scheduled_ns=now_ns,
            queued_ns=now_ns,
            not_before_ns=now_ns + _pause_seconds(job, record.attempt) * SECOND_NS,
            deadline_ns=record.deadline_ns,
            requested_by=record.requested_by,
            attempt=record.attempt + 1,
            rescheduled_from=record.id,
            request=record.request,
        )
        said = [f"attempt {again.attempt}, after run {record.id} failed"]
        await outlast(runs.submit, again, said)
        await self._say(record, runs, "info", f"tried again as run {again.id}")

    async def _forget(self, record: RunRecord, runs: RunControl) -> None:
        context = self._context
        for group in await outlast(context.in_thread, groups_of, context, record):
            if obstacle := self._retention_obstacle():
                await self._say(record, runs, "warning", f"nothing was forgotten: {obstacle}")
                return
            try:
                lines = await outlast(context.with_repository, apply_retention, context, *group)
            except UnknownNameError:
                # The director has no access to this repository, so it does no retention there.
                return
            except (StrongroomError, OSError) as error:
                await self._say(record, runs, "warning", f"retention: {error}")
                return
            for level, text in lines:
                await self._say(record, runs, level, text)

    def _scripts(self, record: RunRecord, moments: tuple[str, ...]) -> tuple[RunScript, ...]:
        job = self._context.configuration.jobs.get(record.job)
        return () if job is None else job.scripts(moments, on_client=False)

    async def _is_known(self, run_id: str) -> bool:
        try:
            await outlast(self._context.in_thread, load_run, self._context.catalog, run_id)
        except UnknownNameError:
            return False
        return True

    async def _note(self, record: RunRecord, step: str) -> None:
        """Everything before this step was done."""
        changes, catalog = {"aftermath": step}, self._context.catalog
        await outlast(self._context.in_thread, change_run, catalog, record.id, changes)

    async def _say(self, record: RunRecord, runs: RunControl, level: str, text: str) -> None:
        line = NewLine(clock.now_ns(), level, text)
        catalog = self._context.catalog
        await outlast(self._context.in_thread, change_run, catalog, record.id, {}, [line])
        runs.watchers.wake(record.id)


def _pause_seconds(job: JobSettings, attempt: int) -> int:
    """How long to wait after a failed attempt: without an interval longer each time.

    An agent that fails at once would otherwise fill the catalog with attempts.
    """
    pause_seconds = min(_FIRST_PAUSE_SECONDS << min(attempt - 1, 8), _LONGEST_PAUSE_SECONDS)
    return job.reschedule_interval_seconds or pause_seconds


async def _submit(runs: RunControl, record: RunRecord) -> None:
    await outlast(runs.submit, record)
