"""Doing a job again when the connection to the storage daemon was lost on the way.

Every kind of job may be done again from its beginning: a backup does not send again what was
stored, and a restore finds the files that it has written already.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, TypeVar

from strongroom import clock
from strongroom.errors import ConnectionLostError

if TYPE_CHECKING:
    from collections.abc import Callable

    from strongroom.daemons.job_process.output import JobOutput

# How long a storage daemon may be out of reach, without a break, before the job gives up.
PATIENCE_SECONDS: Final = 15 * 60.0
_SHORTEST_PAUSE_SECONDS: Final = 1.0
_LONGEST_PAUSE_SECONDS: Final = 60.0

Result = TypeVar("Result")


def persist(attempt: Callable[[], Result], output: JobOutput) -> Result:
    """Try until it is done or fails for good; a lost connection only makes it wait.

    Raises what `attempt` raises; ConnectionLostError when patience is over.
    """
    pause_seconds = _SHORTEST_PAUSE_SECONDS
    lost_since: float | None = None
    while True:
        started = clock.elapsed_seconds()
        try:
            return attempt()
        except ConnectionLostError as error:
            now = clock.elapsed_seconds()
            if lost_since is None or now - started > _LONGEST_PAUSE_SECONDS:
                # It worked for a while in between.
                lost_since, pause_seconds = now, _SHORTEST_PAUSE_SECONDS
            if now - lost_since > PATIENCE_SECONDS:
                raise
            output.log("warning", f"{error}; trying again in {pause_seconds:.0f} s")
            time.sleep(pause_seconds)
            pause_seconds = min(2 * pause_seconds, _LONGEST_PAUSE_SECONDS)
