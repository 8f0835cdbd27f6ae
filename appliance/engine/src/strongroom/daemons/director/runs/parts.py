"""What `runs` leaves to others: the director's own work, and what comes before and after runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import msgspec

if TYPE_CHECKING:
    from strongroom.daemons.director.runs.active_run import ActiveRun
    from strongroom.daemons.director.runs.lifecycle import Runs


class Outcome(msgspec.Struct, frozen=True):
    """How work of the director itself ended: state, columns of the catalog, lines of the log."""

    state: str
    changes: dict[str, Any] = {}
    lines: tuple[tuple[str, str], ...] = ()


class LocalWork(Protocol):
    """What the director does itself; cancelling the call ends the work."""

    async def carry_out(self, active: ActiveRun, runs: Runs) -> Outcome:
        """Do what the run is for. Raises StrongroomError."""


class Aftermath(Protocol):
    """What comes before and after runs."""

    async def before(self, active: ActiveRun, runs: Runs) -> None:
        """Run the director's own scripts. Raises StrongroomError when one ends the run."""

    async def after(self, run_id: str, runs: Runs) -> None:
        """Do what follows the end of a run, from where it was left."""
