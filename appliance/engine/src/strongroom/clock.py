"""The one door for time and randomness, so that tests can drive both.

Nothing else in the engine calls `time.time`, `datetime.now`, `os.urandom` or `random`.
"""

from __future__ import annotations

import os
import time


def now_ns() -> int:
    """Wall clock, nanoseconds since 1970-01-01 UTC."""
    return time.time_ns()


def elapsed_seconds() -> float:
    """A clock that only goes forward, for durations; its zero means nothing."""
    return time.perf_counter()


def random_bytes(size: int) -> bytes:
    """`size` bytes from the kernel's generator, fit for keys."""
    return os.urandom(size)
