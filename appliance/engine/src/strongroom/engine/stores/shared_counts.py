"""Numbers that a process and those forked from it count up together: faults, and traffic."""

from __future__ import annotations

import fcntl
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Final
from weakref import WeakSet

from strongroom.base import clock

_NUMBER_BYTES: Final = 8
_every: WeakSet[SharedCounts] = WeakSet()


class SharedCounts:
    """`size` numbers, 0 at first.

    A process may be killed while it counts: then the kernel gives up its lock. A semaphore, such as
    multiprocessing has, would be held forever, and all others would wait.
    """

    def __init__(self, size: int) -> None:
        self._numbers = memoryview(mmap.mmap(-1, size * _NUMBER_BYTES)).cast("q")
        self._lock_file = open(os.memfd_create("strongroom-counts"), "wb")  # noqa: SIM115 - as long as this
        # The lock of the file is of the process, whichever thread asks.
        self._threads = Lock()
        _every.add(self)

    def __getitem__(self, place: int) -> int:
        return self._numbers[place]

    def add(self, place: int, count: int = 1) -> int:
        """Count one number up; what it is then."""
        with self.alone():
            self._numbers[place] += count
            return self._numbers[place]

    def put(self, place: int, number: int) -> None:
        """Set one number, for anyone who counts alone."""
        self._numbers[place] = number

    @contextmanager
    def alone(self) -> Iterator[None]:
        """No other thread or process counts meanwhile."""
        with self._threads:
            fcntl.lockf(self._lock_file, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.lockf(self._lock_file, fcntl.LOCK_UN)

    def begin_in_child(self) -> None:
        """In a forked process: a thread that is not here may have held the lock."""
        self._threads = Lock()


def _begin_in_child() -> None:
    for one in _every:
        one.begin_in_child()


os.register_at_fork(after_in_child=_begin_in_child)


class Traffic:
    """What a command asks of a store behind a network, in all its processes.

    Requests are those that the store answers one by one: of HTTP, of the storage protocol, and of
    SFTP what is sent together without waiting. Bytes are those of objects.

    Round trips are the most requests of which each began after the one before it had its answer:
    what is asked for at the same time is one.
    """

    def __init__(self, place: str) -> None:
        self.place = place
        self._counts = SharedCounts(5)

    def count(self, requests: int = 0, sent_bytes: int = 0, received_bytes: int = 0) -> None:
        """Add to the figures."""
        for place, count in enumerate((requests, sent_bytes, received_bytes)):
            if count:
                self._counts.add(place, count)

    def answered(self, began_ns: int) -> None:
        """A request has its answer, which began at this time of `clock.since_boot_ns`."""
        with self._counts.alone():
            # Of what ends first, the next is what began after that: no choice has more.
            if began_ns >= self._counts[4]:
                self._counts.put(3, self._counts[3] + 1)
                self._counts.put(4, clock.since_boot_ns())

    @property
    def requests(self) -> int:
        """Requests, those that were repeated too."""
        return self._counts[0]

    @property
    def round_trips(self) -> int:
        """How many of them had to follow another."""
        return self._counts[3]

    @property
    def sent_bytes(self) -> int:
        """Bytes of objects that were sent."""
        return self._counts[1]

    @property
    def received_bytes(self) -> int:
        """Bytes of objects that were received."""
        return self._counts[2]
