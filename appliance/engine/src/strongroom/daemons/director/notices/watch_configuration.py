"""A changed configuration that the director refused when it was told to reload it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from strongroom import clock
from strongroom.daemons.director.catalog.incidents import Condition

if TYPE_CHECKING:
    from strongroom.daemons.director.context import DirectorContext

TOPIC: Final = "configuration"
# Whoever reloads by hand is told at once, and mends it.
PATIENCE_SECONDS: Final = 300.0


@dataclass(slots=True)
class ConfigurationWatch:
    """Remembers since when it is refused."""

    context: DirectorContext
    _since: float = 0.0
    _since_ns: int = 0

    def conditions(self) -> list[Condition]:
        """The refusal, once it has lasted."""
        errors = self.context.reload_errors
        if not errors:
            self._since_ns = 0
            return []
        if not self._since_ns:
            self._since, self._since_ns = clock.elapsed_seconds(), clock.now_ns()
        if clock.elapsed_seconds() - self._since < PATIENCE_SECONDS:
            return []
        more = f" (and {len(errors) - 1} more errors)" if len(errors) > 1 else ""
        return [
            Condition(
                event="configuration-refused",
                topic=TOPIC,
                title="the changed configuration is refused; the one before it stays in force",
                detail=errors[0] + more,
                remedy="strongroom config check, mend it, then strongroom reload",
                since_ns=self._since_ns,
            )
        ]
