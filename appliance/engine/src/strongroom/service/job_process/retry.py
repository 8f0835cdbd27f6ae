"""Repeats a job when the connection to the storage daemon was lost.

Every kind of job may be repeated from its beginning: a backup does not send stored data again,
a restore recognizes the files that it has written already, and housekeeping finds what is left.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

from strongroom.base import clock
from strongroom.base.errors import ConnectionLostError
from strongroom.service.job_process.program import JobOutput

# How long a storage daemon may be unreachable without a break before the job fails.
PATIENCE_SECONDS: Final = 15 * 60.0
_SHORTEST_PAUSE_SECONDS: Final = 1.0
_LONGEST_PAUSE_SECONDS: Final = 60.0

Result = TypeVar("Result")


def persist(attempt: Callable[[], Result], output: JobOutput) -> Result:
    """Repeat until it succeeds or fails for good; only a lost connection is retried.

    Raises what `attempt` raises; ConnectionLostError after the time limit.
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
