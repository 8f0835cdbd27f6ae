"""All runs of this agent: accepted, waiting, active, or ended and not yet acknowledged.

A run that a director requests is first written to a journal, so it is executed even when the agent
is killed a moment later: after a restart it is started again, and stored data is recognized and not
sent again. Scripts before the job then run once more. A run during which the agent, or its own
process, died MOST_BEGINNINGS times fails.

All runs share `processes`: each gets what is left of them when it starts, at least one, and at most
what it requests. Runs beyond the limit of concurrent runs wait in the order of their arrival.

Everything runs in the event loop's thread.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import msgspec

from strongroom.agent.jobs.description import (
    JobDescription,
    PassedRestore,
    StartMessage,
    bandwidth_of,
    kind_of,
    run_seconds_of,
    scripts_of,
)
from strongroom.agent.journal import RunJournal, load_journals
from strongroom.agent.run_status import EndedRuns
from strongroom.agent.settings import AgentSettings
from strongroom.base import clock
from strongroom.base.errors import CancelledError, JobDiedError, RefusedError, StrongroomError
from strongroom.base.quantities import lowest_limit
from strongroom.engine.knobs.settings import KnobSettings
from strongroom.net.control.messages import RunEnded, RunLog, RunProgress, StartRestore
from strongroom.service.job_process.process import STOP_SECONDS, JobProcess, JobProgram

MOST_BEGINNINGS: Final = 3
_RUN_ID: Final = re.compile(r"[0-9a-f]{32}")
# A job that ended without a request to stop may have got a signal meant for the agent.
_STOPPED: Final = (CancelledError.error_id, JobDiedError.error_id)
_STOP_REPORT_SECONDS: Final = 0.5
_DISK_RETRY_SECONDS: Final = 5.0

_log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class _Run:
    journal: RunJournal
    process: JobProcess | None = None
    task: asyncio.Task[None] | None = None
    processes: int = 0
    # The agent's own settings when it began.
    tuning: KnobSettings = field(default_factory=KnobSettings)
    progress: RunProgress | None = None
    is_cancelled: bool = False
    # The limit that the director set last; None: that of the start message.
    limit_bytes_per_second: int | None = None


class Supervisor:
    """Keeps all runs.

    `news(director)` is called whenever there is something to send, `ended(journal)` when a run has
    ended; during `resume` again for those that no director has acknowledged.
    """

    def __init__(
        self,
        settings: AgentSettings,
        news: Callable[[str], None],
        ended: Callable[[RunJournal], None],
    ) -> None:
        """Reads the journals. Raises OSError."""
        self.settings = settings
        # How many concurrent runs and processes each director allows; 0: any number.
        self._limits: dict[str, int] = {}
        self._news = news
        self._ended = ended
        self._is_stopping = False
        self.ended_runs = EndedRuns()
        self._runs = {
            journal.run_id: _Run(journal)
            for journal in load_journals(settings.run_folder, settings.directors)
        }

    def resume(self) -> None:
        """Start what was active or waiting when the agent ended."""
        for run in self._runs.values():
            self._ended(run.journal)
            if run.journal.ended is None and run.journal.begun >= MOST_BEGINNINGS:
                self._end(
                    run,
                    "failed",
                    JobDiedError(
                        f"the run was begun {run.journal.begun} times, and each time the agent "
                        "ended before it"
                    ),
                )
        self._begin_waiting()

    def allow(self, director: str, maximum_runs: int) -> None:
        """Apply a director's Welcome."""
        self._limits[director] = maximum_runs
        self._begin_waiting()

    def accept(self, director: str, start: StartMessage) -> RunEnded | None:
        """Accept a run, unless it is known already; returns an answer if it cannot be journaled.

        Raises ValueError for an invalid run id.
        """
        run_id = start.run_id
        if not _RUN_ID.fullmatch(run_id):
            raise ValueError("a run's id is not a UUID in hex")
        if run_id in self._runs:
            return None
        try:
            journal = RunJournal.create(self.settings.run_folder, director, start)
        except OSError as error:
            return _ending(
                run_id, "failed", JobDiedError(f"the run cannot be journaled: {error.strerror}")
            )
        run = self._runs[run_id] = _Run(journal)
        refusal = self._refusal(director, kind_of(start))
        if refusal is not None:
            self._end(run, "failed", refusal)
        self._begin_waiting()
        return None

    def cancel(self, director: str, run_id: str) -> RunEnded | None:
        """Cancel a run; returns an answer if there is no such run."""
        run = self._known(director, run_id)
        if run is None:
            return _ending(run_id, "cancelled", CancelledError("the agent knows no such run"))
        if run.journal.ended is None:
            run.is_cancelled = True
            if run.process is not None:
                run.process.stop()
            elif run.task is None:
                self._end(run, "cancelled", CancelledError("cancelled before it began"))
        self._news(director)
        return None

    def set_bandwidth(self, director: str, run_id: str, bytes_per_second: int) -> None:
        """Change the limit of a run; never above the agent's own."""
        run = self._known(director, run_id)
        if run is not None and run.journal.ended is None:
            run.limit_bytes_per_second = bytes_per_second
            if run.process is not None:
                run.process.set_limit(self._bandwidth(run))

    def acknowledge(self, director: str, run_id: str, sequence: int) -> None:
        """Note that the director has all reports of a run up to this number."""
        run = self._known(director, run_id)
        if run is not None and run.journal.acknowledge(sequence):
            run.journal.remove()
            del self._runs[run_id]

    def runs_of(self, director: str) -> list[str]:
        """Ids of the runs to report to a director, in the order of arrival."""
        return [
            run_id for run_id, run in self._runs.items() if run.journal.entry.director == director
        ]

    def journal(self, run_id: str) -> RunJournal | None:
        """The journal of a run; None once it is acknowledged."""
        run = self._runs.get(run_id)
        return None if run is None else run.journal

    def take_progress(self, run_id: str) -> RunProgress | None:
        """The counts of a run, if they are new."""
        run = self._runs.get(run_id)
        if run is None:
            return None
        progress, run.progress = run.progress, None
        return progress

    @property
    def active_count(self) -> int:
        """How many runs are active."""
        return sum(run.task is not None for run in self._runs.values())

    def active(self) -> list[tuple[RunJournal, KnobSettings, int]]:
        """The active runs, each with the agent's own settings when it began, and its processes."""
        return [
            (run.journal, run.tuning, run.processes)
            for run in self._runs.values()
            if run.task is not None
        ]

    async def stop(self) -> None:
        """Stop every job without ending its run: the next start of the agent resumes them."""
        self._is_stopping = True
        tasks = [run.task for run in self._runs.values() if run.task is not None]
        for run in self._runs.values():
            if run.process is not None:
                run.process.stop()
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=STOP_SECONDS)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)
        for run in self._runs.values():
            run.journal.close()

    def _known(self, director: str, run_id: str) -> _Run | None:
        run = self._runs.get(run_id)
        return run if run is not None and run.journal.entry.director == director else None

    def _refusal(self, director: str, kind: str) -> RefusedError | None:
        settings = self.settings.directors.get(director)
        commands = () if settings is None else settings.commands
        if not commands or kind in commands:
            return None
        return RefusedError(
            f"Director {director} may not start a {kind} here; see Allowed Job Command"
        )

    def _begin_waiting(self) -> None:
        for run in self._runs.values():
            if run.task is not None or run.journal.ended is not None:
                continue
            if self._is_stopping or not self._has_place():
                run.progress = RunProgress(
                    run_id=run.journal.run_id, message="waits for other runs of this client"
                )
                self._news(run.journal.entry.director)
                continue
            run.task = asyncio.create_task(self._do(run), name=f"run {run.journal.run_id}")

    def _has_place(self) -> bool:
        most = lowest_limit(self.settings.maximum_concurrent_runs, *self._limits.values())
        return not most or self.active_count < most

    def _share(self) -> int:
        """How many processes one more run may have."""
        return max(1, self.settings.processes - sum(run.processes for run in self._runs.values()))

    def _bandwidth(self, run: _Run) -> int:
        entry = run.journal.entry
        settings = self.settings.directors.get(entry.director)
        wanted = run.limit_bytes_per_second
        if wanted is None:
            wanted = bandwidth_of(entry.start)
        own = 0 if settings is None else settings.maximum_bytes_per_second
        return lowest_limit(wanted, own)

    def _description(self, run: _Run) -> JobDescription:
        entry, settings = run.journal.entry, self.settings
        director = settings.directors.get(entry.director)
        return JobDescription(
            start=entry.start,
            client=settings.name,
            director=entry.director,
            identity_folder=settings.identity_folder,
            cache_folder=settings.cache_folder,
            lock_file=os.fsdecode(run.journal.lock_path()),
            script_folders=() if director is None else director.script_folders,
            script_seconds=settings.script_seconds,
            restore_folders=() if director is None else director.restore_folders,
            allow_commands=settings.allow_commands,
            processes=run.processes,
            tuning=run.tuning,
            share_below=settings.share_below,
            maximum_bytes_per_second=self._bandwidth(run),
            maximum_run_seconds=lowest_limit(
                settings.maximum_run_seconds, run_seconds_of(entry.start)
            ),
        )

    def _program(self, run: _Run) -> JobProgram:
        """The job process of a run; for a restore one with write access everywhere, if available.

        With scripts, its time to stop is longer by the time limit of a script.
        """
        start, settings = run.journal.entry.start, self.settings
        scripts = scripts_of(start)
        lacks_rights = isinstance(start, StartRestore) and os.geteuid() != 0
        has_socket = lacks_rights and os.path.exists(settings.restore_socket)
        return JobProgram(
            "strongroom.agent.jobs.job",
            settings.restore_socket if has_socket else "",
            STOP_SECONDS + (settings.script_seconds if scripts else 0),
        )

    async def _do(self, run: _Run) -> None:
        journal = run.journal
        try:
            run.processes = self._share()
            run.tuning = self.settings.tuning
            await self._on_disk(journal.begin)
            if journal.begun == 1:
                await self._on_disk(journal.add_started)
            else:
                journal.add_log(
                    clock.now_ns(), "warning", "the agent was restarted; the run is begun again"
                )
            self._news(journal.entry.director)

            async def report(message: RunProgress | RunLog) -> None:
                self._take(run, message)

            program, description = self._program(run), self._description(run)
            passed = _passed(description) if program.socket_path else description
            run.process = JobProcess(program, passed, report)
            if run.is_cancelled:
                run.process.stop()
            ended = await run.process.run()
            await self._finish(run, ended)
        finally:
            run.process, run.task, run.processes = None, None, 0
        if not self._is_stopping:
            self._begin_waiting()

    def _take(self, run: _Run, message: RunProgress | RunLog) -> None:
        if isinstance(message, RunLog):
            run.journal.add_log(message.time_ns, message.level, message.text)
        else:
            run.progress = msgspec.structs.replace(message, run_id=run.journal.run_id)
        self._news(run.journal.entry.director)

    async def _finish(self, run: _Run, ended: RunEnded) -> None:
        if ended.error_id in _STOPPED and not run.is_cancelled:
            if not self._is_stopping:
                await asyncio.sleep(_STOP_REPORT_SECONDS)
            if self._is_stopping:
                return
        report = msgspec.structs.replace(ended, run_id=run.journal.run_id, time_ns=clock.now_ns())
        await self._on_disk(lambda: run.journal.add_ended(report))
        self._ended(run.journal)
        self._news(run.journal.entry.director)
        self.ended_runs.note(run.journal, run.tuning)

    def _end(self, run: _Run, status: str, error: Exception) -> None:
        """End a run that has no process."""
        try:
            run.journal.add_ended(_ending(run.journal.run_id, status, error))
            self._ended(run.journal)
        except OSError as failure:
            # It is repeated when the agent starts the next time.
            _log.error("run %s: its end cannot be journaled: %s", run.journal.run_id, failure)
        self._news(run.journal.entry.director)

    async def _on_disk(self, write: Callable[[], None]) -> None:
        """Write to a journal, and retry until it succeeds."""
        while True:
            try:
                return write()
            except OSError as error:
                _log.error("a journal cannot be written: %s; trying again", error)
                await asyncio.sleep(_DISK_RETRY_SECONDS)


def _passed(description: JobDescription) -> PassedRestore:
    """What the program behind Restore Socket is reported: it takes its rights from elsewhere."""
    assert isinstance(description.start, StartRestore)
    return PassedRestore(
        start=description.start,
        processes=description.processes,
        maximum_bytes_per_second=description.maximum_bytes_per_second,
        maximum_run_seconds=description.maximum_run_seconds,
    )


def _ending(run_id: str, status: str, error: Exception) -> RunEnded:
    return RunEnded(
        run_id=run_id,
        sequence=1,
        time_ns=clock.now_ns(),
        status=status,  # type: ignore[arg-type]
        exit_code=error.exit_code if isinstance(error, StrongroomError) else 1,
        error_id=error.error_id if isinstance(error, StrongroomError) else "",
        error=str(error),
    )
