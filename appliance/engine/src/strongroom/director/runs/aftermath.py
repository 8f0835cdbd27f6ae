"""What the director does around runs: its own scripts, another attempt, retention, the report.

After the end of a run, in this order: scripts, another attempt (Reschedule On Error), retention of
the job's snapshots after a backup that made one, and the report to the destinations of Messages.
None of it changes how the run ended; failures are in the run's log.

The progress is in the catalog with the run, from the moment of its end: after a restart the
director continues from there. Another attempt is added in one transaction with its progress, so
it happens once; scripts and reports may run twice, and must be idempotent.

A command of a script is split into words as a shell would, but no shell reads it. In it `%c` means
the client, `%d` the director, `%e` the state of the run, `%i` its id, `%j` job and id, `%l` the
level, `%n` the job, `%t` the kind, `%b` bytes, `%f` the FileSet, `%F` files, `%p` the pool, `%w`
the storage, `%%` a percent sign. What it prints goes to the run's log.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shlex
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.base.errors import ScriptError, StrongroomError, UnknownNameError
from strongroom.config.settings.job import JobSettings, RunScript
from strongroom.director.catalog.runs import (
    AFTERMATH,
    NewLine,
    change_run,
    known_run,
    load_run,
    new_run_id,
)
from strongroom.director.context import DirectorContext, survive
from strongroom.director.results.runs import Run
from strongroom.director.runs.active_run import ActiveRun, RunControl
from strongroom.director.runs.dispatch import REPLACED_ID
from strongroom.director.runs.requests import RunRequest, companions
from strongroom.director.runs.retention import apply_retention, groups_of

_FIRST_PAUSE_SECONDS: Final = 60
_LONGEST_PAUSE_SECONDS: Final = 3600
SCRIPT_SECONDS: Final = 3600.0
_MOST_OUTPUT_BYTES: Final = 256 << 10
_KILL_SECONDS: Final = 5.0

_log = logging.getLogger(__name__)


class RunNotices(Protocol):
    """Tells people of runs; `notices.notice_service` is one."""

    async def started(self, record: Run) -> None:
        """A run begins. Fails no run."""

    async def report(self, record: Run) -> None:
        """A run has ended: report it. Raises StrongroomError, OSError."""

    async def ended(self, record: Run) -> None:
        """A run has ended, and all that follows was done. Fails no run."""


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
                if await survive(self._context.ask, known_run, companion.id) is not None:
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


def filled(command: str, record: Run, director: str) -> list[str]:
    """The words of a command with its placeholders replaced. Raises ScriptError."""
    values = {
        "%": "%",
        "b": str(record.bytes),
        "c": record.client,
        "d": director,
        "e": record.state,
        "f": record.fileset,
        "F": str(record.files),
        "i": record.id,
        "j": f"{record.job}.{record.id}",
        "l": record.level,
        "n": record.job,
        "p": record.pool,
        "t": record.kind,
        "w": record.storage,
    }
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ScriptError(f"the command {command!r} cannot be split into words: {error}") from error
    if not words:
        raise ScriptError("a script has an empty command")
    # Replaced within each word, so that a name with blanks stays one word.
    return [re.sub("%(.)", lambda m: values.get(m[1], m[0]), word) for word in words]


async def run_command(
    words: list[str], say: Callable[[str, str], Awaitable[None]], *, seconds: float = SCRIPT_SECONDS
) -> None:
    """Run a command; its output is logged by line. Raises ScriptError unless it exits with 0."""
    try:
        process = await asyncio.create_subprocess_exec(
            *words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
            env={"PATH": os.defpath, "LANG": "C.UTF-8"},
        )
    except OSError as error:
        raise ScriptError(f"cannot run {words[0]}: {error.strerror}") from error
    assert process.stdout is not None
    try:
        output = await asyncio.wait_for(_read(process.stdout), seconds)
        code = await asyncio.wait_for(process.wait(), seconds)
    except TimeoutError as error:
        raise ScriptError(f"{words[0]} took longer than {seconds:.0f} s and was ended") from error
    finally:
        if process.returncode is None:
            process.kill()
            await asyncio.wait_for(process.wait(), _KILL_SECONDS)
    for line in output.decode("utf-8", "backslashreplace").splitlines():
        await say("info", f"{os.path.basename(words[0])}: {line}")
    if code:
        raise ScriptError(f"{words[0]} ended with code {code}")


async def _read(stream: asyncio.StreamReader) -> bytes:
    """Read all output, of which the first part is kept."""
    kept = bytearray()
    while part := await stream.read(64 << 10):
        kept += part[: max(0, _MOST_OUTPUT_BYTES - len(kept))]
    return bytes(kept)
