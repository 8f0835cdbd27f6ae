"""How long a thread waits, for a disk or a network: neither computes nor gives way to others."""

from __future__ import annotations

import resource
from typing import NamedTuple

from strongroom import clock


class Spent(NamedTuple):
    """Seconds."""

    waited: float
    computed: float


class Waiting:
    """From now on, for the calling thread. It takes some microseconds."""

    __slots__ = ("_begun", "_computed", "_switches")

    def __init__(self) -> None:
        self._switches = _switches()
        self._begun = clock.elapsed_seconds()
        self._computed = clock.thread_seconds()

    def spent(self) -> Spent:
        """Up to now."""
        computed = clock.thread_seconds() - self._computed
        elapsed = clock.elapsed_seconds() - self._begun
        # A thread that waits gives up its core; one that only gave way did not wait.
        waited = elapsed - computed if _switches() != self._switches else 0.0
        return Spent(max(0.0, waited), computed)


def _switches() -> int:
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
