"""Numbers that a process and those forked from it count up together."""

from __future__ import annotations

import fcntl
import mmap
import os
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_NUMBER_BYTES: Final = 8


class SharedCounts:
    """`size` numbers, 0 at first.

    A process may be killed while it counts: then the kernel gives up its lock. A semaphore, such as
    multiprocessing has, would be held for ever, and all others would wait.
    """

    def __init__(self, size: int) -> None:
        self._numbers = memoryview(mmap.mmap(-1, size * _NUMBER_BYTES)).cast("q")
        self._lock_file = open(os.memfd_create("strongroom-counts"), "wb")  # noqa: SIM115 - as long as this
        # The lock of the file is of the process, whichever thread asks.
        self._threads = Lock()

    def __getitem__(self, place: int) -> int:
        return self._numbers[place]

    def add(self, place: int) -> int:
        """Count one number up by one; what it is then."""
        with self.alone():
            self._numbers[place] += 1
            return self._numbers[place]

    @contextmanager
    def alone(self) -> Iterator[None]:
        """No other thread or process counts meanwhile."""
        with self._threads:
            fcntl.lockf(self._lock_file, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.lockf(self._lock_file, fcntl.LOCK_UN)
