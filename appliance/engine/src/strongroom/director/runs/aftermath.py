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
from typing import Final

from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.base.errors import ScriptError, StrongroomError, UnknownNameError
from strongroom.config.settings.job import JobSettings, RunScript
from strongroom.director.catalog.retry import survive
from strongroom.director.catalog.runs import AFTERMATH, NewLine, change_run, load_run, new_run_id
from strongroom.director.context import DirectorContext
from strongroom.director.results.runs import Run
from strongroom.director.runs.active_run import ActiveRun
from strongroom.director.runs.dispatch import REPLACED_ID
from strongroom.director.runs.protocols import RunControl, RunNotices
from strongroom.director.runs.requests import RunRequest, companions
from strongroom.director.runs.retention import apply_retention, groups_of
from strongroom.director.runs.scripts import filled, run_command

_FIRST_PAUSE_SECONDS: Final = 60
_LONGEST_PAUSE_SECONDS: Final = 3600

_log = logging.getLogger(__name__)


class DirectorAftermath:
    """What is done before a run, and the steps after its end."""

    def __init__(self, context: DirectorContext, notices: RunNotices) -> None:
        self._context = context
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
        record = await survive(context.ask, load_run, run_id)
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

    async def _conclude(self, record: Run, runs: RunControl) -> None:
        if record.went_well:
            await self._forget(record, runs)
        if record.error_id == REPLACED_ID:
            # One that waits instead: a client that is offline for weeks needs no mail a night.
            return
        try:
            await self._notices.report(record)
        except (StrongroomError, OSError) as error:
            await self._say(record, runs, "warning", f"the report could not be sent: {error}")

    async def _run_scripts(self, record: Run, runs: RunControl) -> None:
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

    async def _try_again(self, record: Run, runs: RunControl) -> None:
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
        reason_lines = [f"attempt {again.attempt}, after run {record.id} failed"]
        await survive(runs.submit, again, reason_lines)
        await self._say(record, runs, "info", f"tried again as run {again.id}")

    async def _forget(self, record: Run, runs: RunControl) -> None:
        context = self._context
        groups = await survive(context.in_thread, groups_of, context, record)
        for job, client, pool, storage in groups:
            if obstacle := context.guard.obstacle:
                await self._say(record, runs, "warning", f"nothing was forgotten: {obstacle}")
                return
            try:
                call = context.with_repository
                lines = await survive(call, apply_retention, context, job, client, pool, storage)
            except UnknownNameError:
                # The director has no access to this repository, so it does no retention there.
                return
            except (StrongroomError, OSError) as error:
                await self._say(record, runs, "warning", f"retention: {error}")
                return
            for level, text in lines:
                await self._say(record, runs, level, text)

    def _scripts(self, record: Run, moments: tuple[str, ...]) -> tuple[RunScript, ...]:
        job = self._context.configuration.jobs.get(record.job)
        return () if job is None else job.scripts(moments, on_client=False)

    async def _is_known(self, run_id: str) -> bool:
        try:
            await survive(self._context.ask, load_run, run_id)
        except UnknownNameError:
            return False
        return True

    async def _note(self, record: Run, step: str) -> None:
        """Everything before this step was done."""
        await survive(self._context.ask, change_run, record.id, {"aftermath": step})

    async def _say(self, record: Run, runs: RunControl, level: str, text: str) -> None:
        line = NewLine(clock.now_ns(), level, text)
        await survive(self._context.ask, change_run, record.id, {}, [line])
        runs.watchers.wake(record.id)


def _pause_seconds(job: JobSettings, attempt: int) -> int:
    """How long to wait after a failed attempt: without an interval longer each time.

    An agent that fails at once would otherwise fill the catalog with attempts.
    """
    pause_seconds = min(_FIRST_PAUSE_SECONDS << min(attempt - 1, 8), _LONGEST_PAUSE_SECONDS)
    return job.reschedule_interval_seconds or pause_seconds


async def _submit(runs: RunControl, record: Run) -> None:
    await survive(runs.submit, record)
