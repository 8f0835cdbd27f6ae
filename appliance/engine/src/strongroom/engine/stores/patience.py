"""How long a store behind a network is waited for when it does not answer.

A store that has answered before may be away for PATIENCE_SECONDS: that costs a job time and nothing
else. A request is repeated after a pause that grows, with chance in it, so that the jobs of many
machines do not come back at the same moment.
"""

from __future__ import annotations

import time
from typing import Final

from strongroom.base import clock
from strongroom.base.errors import StoreError
from strongroom.base.printable import printable

PATIENCE_SECONDS: Final = 900.0
_LONGEST_PAUSE_SECONDS: Final = 20.0
_SHORTEST_PAUSE_SECONDS: Final = 0.2


class Patience:
    """Of one operation, from its first attempt on."""

    def __init__(self, location: str) -> None:
        self._location = location
        self._began = clock.elapsed_seconds()
        self._attempts = 0

    def wait(
        self,
        failure: Exception,
        most_seconds: float = PATIENCE_SECONDS,
        asked_seconds: float = 0.0,
    ) -> None:
        """Sleep until the next attempt, no less than the store asks for.

        Raises StoreError where that would be later than `most_seconds` after the first one.
        """
        self._attempts += 1
        grown = _SHORTEST_PAUSE_SECONDS * 2 ** min(self._attempts, 10)
        longest = min(_LONGEST_PAUSE_SECONDS, grown)
        drawn = clock.random_choices().uniform(_SHORTEST_PAUSE_SECONDS / 2, longest)
        pause = max(asked_seconds, drawn)
        waited = clock.elapsed_seconds() - self._began
        if waited + pause > most_seconds:
            raise StoreError(
                f"{printable(self._location)}: no answer for {waited:.0f} s. What was stored is "
                "kept and not sent again: run the same command again when the store answers. The "
                f"last failure: {failure}"
            ) from None
        time.sleep(pause)
