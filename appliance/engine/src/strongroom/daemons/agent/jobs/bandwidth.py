"""A bandwidth limit that the processes of one job share and that may change while they run.

The bucket holds a debt that shrinks with time: a caller that takes bytes waits until the debt of
others is nearly paid, then adds its own. So the rate holds over any second or so, however large
single blocks are, and a new limit applies at once to waiting callers.

The state is in memory shared with forked processes. A record lock of the kernel guards it
between processes (and is released when a process dies), `_lock` between threads of one.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
import threading
import time
from typing import Final, NamedTuple

from strongroom import clock

# Limit in bytes a second (0: none), debt in bytes, time of that debt, and all bytes ever taken.
_STATE: Final = struct.Struct("<QddQ")
_TAKEN_AT: Final = 24


class _State(NamedTuple):
    limit_bytes_per_second: int
    debt_bytes: float
    seconds: float
    taken_bytes: int


# The debt may reach this many seconds of the limit.
_MOMENT_SECONDS: Final = 0.1
_LONGEST_WAIT_SECONDS: Final = 0.1


class SharedBucket:
    """Create it before forking; it is a `Limiter`."""

    def __init__(self, bytes_per_second: int) -> None:
        self._file = os.memfd_create("strongroom-limit")
        os.ftruncate(self._file, _STATE.size)
        self._memory = mmap.mmap(self._file, _STATE.size)
        self._lock = threading.Lock()
        _STATE.pack_into(self._memory, 0, bytes_per_second, 0.0, clock.elapsed_seconds(), 0)

    def set_limit(self, bytes_per_second: int) -> None:
        """Change the limit for all processes, and clear the debt; 0 is none.

        It is called where a signal may have interrupted `take`, so it takes no lock: a concurrent
        `take` may count its bytes by the old limit.
        """
        struct.pack_into("<Qd", self._memory, 0, bytes_per_second, 0.0)

    def take(self, size_bytes: int) -> None:
        """Return when `size_bytes` may be sent."""
        while True:
            with self._lock:
                wait_seconds = self._try(size_bytes)
            if not wait_seconds:
                return
            time.sleep(min(wait_seconds, _LONGEST_WAIT_SECONDS))

    @property
    def taken_bytes(self) -> int:
        """The bytes that all processes have taken so far."""
        (taken,) = struct.unpack_from("<Q", self._memory, _TAKEN_AT)
        return int(taken)

    def _try(self, size_bytes: int) -> float:
        """0 when the bytes were counted, else how long to wait before the next try."""
        fcntl.lockf(self._file, fcntl.LOCK_EX)
        try:
            limit, debt, then, taken = _State._make(_STATE.unpack_from(self._memory))
            now = clock.elapsed_seconds()
            debt = max(0.0, debt - (now - then) * limit) if limit else 0.0
            excess = debt - limit * _MOMENT_SECONDS
            if excess <= 0:
                debt += size_bytes if limit else 0
                taken += size_bytes
            struct.pack_into("<ddQ", self._memory, 8, debt, now, taken)
            return max(0.0, excess / limit) if limit else 0.0
        finally:
            fcntl.lockf(self._file, fcntl.LOCK_UN)
