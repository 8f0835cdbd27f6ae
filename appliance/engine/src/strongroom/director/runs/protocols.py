"""Interfaces of the runs to own jobs and the aftermath, and what those need of the runs."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, Protocol

from strongroom.director.results.runs import Run
from strongroom.director.runs.active_run import ActiveRun, Ending, Watchers


class RunControl(Protocol):
    """What may be done with runs from outside; `lifecycle.Runs` is one."""

    @property
    def watchers(self) -> Watchers:
        """Watchers of runs."""

    async def say(self, active: ActiveRun, level: str, text: str) -> None:
        """Add a line to the log of a run."""

    async def submit(self, record: Run, lines: Sequence[str] = ()) -> Run:
        """Add a run."""

    def spawn(self, activity: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start an activity; it is waited for when the director stops."""


class OwnJobRunner(Protocol):
    """Executes jobs that need no agent; cancelling the call ends the job."""

    async def carry_out(self, active: ActiveRun, runs: RunControl) -> Ending:
        """Execute the run; how it ended. Raises StrongroomError."""


class Aftermath(Protocol):
    """Steps before and after runs."""

    async def before(self, active: ActiveRun, runs: RunControl) -> None:
        """Run the director's own scripts. Raises StrongroomError when one ends the run."""

    async def after(self, run_id: str, runs: RunControl) -> None:
        """Do the steps after the end of a run, from the stored progress."""


class RunNotices(Protocol):
    """Tells people of runs; `notices.notice_service` is one."""

    async def started(self, record: Run) -> None:
        """A run begins. Fails no run."""

    async def report(self, record: Run) -> None:
        """A run has ended: report it. Raises StrongroomError, OSError."""

    async def ended(self, record: Run) -> None:
        """A run has ended, and all that follows was done. Fails no run."""
