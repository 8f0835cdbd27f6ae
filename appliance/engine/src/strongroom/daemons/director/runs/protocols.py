"""Interfaces of the runs to own jobs and the aftermath, and what those need of the runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import msgspec

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Coroutine, Sequence

    from strongroom.daemons.director.catalog.runs import RunRecord
    from strongroom.daemons.director.runs.active_run import ActiveRun
    from strongroom.daemons.director.runs.watchers import Watchers


class Outcome(msgspec.Struct, frozen=True):
    """How an own job of the director ended: state, columns of the catalog, lines of the log."""

    state: str
    changes: dict[str, Any] = {}
    lines: tuple[tuple[str, str], ...] = ()


class RunControl(Protocol):
    """What may be done with runs from outside; `lifecycle.Runs` is one."""

    @property
    def watchers(self) -> Watchers:
        """Watchers of runs."""

    async def say(self, active: ActiveRun, level: str, text: str) -> None:
        """Add a line to the log of a run."""

    async def submit(self, record: RunRecord, lines: Sequence[str] = ()) -> RunRecord:
        """Add a run."""

    def spawn(self, activity: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start an activity; it is waited for when the director stops."""


class OwnJobRunner(Protocol):
    """Executes jobs that need no agent; cancelling the call ends the job."""

    async def carry_out(self, active: ActiveRun, runs: RunControl) -> Outcome:
        """Execute the run. Raises StrongroomError."""


class Aftermath(Protocol):
    """Steps before and after runs."""

    async def before(self, active: ActiveRun, runs: RunControl) -> None:
        """Run the director's own scripts. Raises StrongroomError when one ends the run."""

    async def after(self, run_id: str, runs: RunControl) -> None:
        """Do the steps after the end of a run, from the stored progress."""


class RunNotices(Protocol):
    """Tells people of runs; `notices.office` is one. No method fails a run."""

    async def started(self, record: RunRecord) -> None:
        """A run begins."""

    async def ended(self, record: RunRecord) -> None:
        """A run has ended, and all that follows was done."""
