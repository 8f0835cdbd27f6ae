"""What the director does itself, each in a process of its own; see `task`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strongroom.errors import UsageError

if TYPE_CHECKING:
    from strongroom.daemons.director.active_run import ActiveRun
    from strongroom.daemons.director.context import DirectorContext
    from strongroom.daemons.director.runs import Outcome, Runs


class DirectorWork:
    """See the module."""

    def __init__(self, context: DirectorContext) -> None:
        self._context = context

    async def carry_out(self, active: ActiveRun, runs: Runs) -> Outcome:
        """Do what the run is for. Raises StrongroomError."""
        raise UsageError(f"the director does not do runs of kind {active.record.kind}")
