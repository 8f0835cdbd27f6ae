"""What the runs leave to others (own jobs, what comes around runs), and what those ask of them."""

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
        """Who waits for news of runs."""

    async def say(self, active: ActiveRun, level: str, text: str) -> None:
        """Add a line to the log of a run."""

    async def submit(self, record: RunRecord, lines: Sequence[str] = ()) -> RunRecord:
        """Enter a run."""

    def spawn(self, activity: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Do something beside; it is waited for when the director stops."""


class OwnJobRunner(Protocol):
    """Does what needs no agent; cancelling the call ends it."""

    async def carry_out(self, active: ActiveRun, runs: RunControl) -> Outcome:
        """Do what the run is for. Raises StrongroomError."""


class Aftermath(Protocol):
    """What comes before and after runs."""

    async def before(self, active: ActiveRun, runs: RunControl) -> None:
        """Run the director's own scripts. Raises StrongroomError when one ends the run."""

    async def after(self, run_id: str, runs: RunControl) -> None:
        """Do what follows the end of a run, from where it was left."""
