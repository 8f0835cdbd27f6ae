"""Whether a shard stores its blocks itself, or has a thread for it, and how many blocks may wait.

A shard reads, compresses and stores. Where storing mostly waits, for a link or a disk, reading and
compressing can continue meanwhile: then a thread stores, and blocks wait for it in a queue. The
queue is short, for each block takes memory. It doubles when within a few blocks both sides waited,
the shard for room and the thread for a block: then the rates vary by more than the queue evens out.
It is halved when it was not needed.
"""

from __future__ import annotations

import resource
import threading
from typing import Final, NamedTuple

from strongroom.base import clock

# How long a thread waits, for a disk or a network: neither computes nor gives way to others.


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


# A judgement takes so many blocks, each about 1 MiB.
_BLOCKS: Final = 16
# From this share of the time on, waiting for the store is worth a thread.
_WORTH: Final = 0.25
LEAST_QUEUED: Final = 2


class BlockQueue:
    """Counts the blocks that wait for a thread; `enter` blocks while there is no room."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._blocks = 0
        self._changed = threading.Condition()

    def enter(self) -> tuple[int, bool]:
        """Take a place: how many blocks were there, and whether there was no room at first."""
        with self._changed:
            before = self._blocks
            had_to_wait = before >= self._room
            while self._blocks >= self._room:
                self._changed.wait()
            self._blocks += 1
            return before, had_to_wait

    def leave(self) -> None:
        """Give a place back."""
        with self._changed:
            self._blocks -= 1
            self._changed.notify()

    def lengthen(self, blocks: int) -> None:
        """Have room for so many more, or fewer."""
        with self._changed:
            self._room += blocks


class StorePace:
    """For one shard. Its thread calls the methods."""

    def __init__(self, most_queued: int) -> None:
        self.has_thread = False
        self.queued_blocks = min(LEAST_QUEUED, most_queued)
        self._most_queued = most_queued
        self._deepest = 0
        self._was_full = self._was_empty = False
        self._begin()

    def stored(self, waited_seconds: float) -> None:
        """The shard has stored a block itself, and so long the store made it wait."""
        self._blocks += 1
        self._waited_seconds += waited_seconds
        if self._blocks < _BLOCKS:
            return
        elapsed = clock.elapsed_seconds() - self._since
        self.has_thread = self._waited_seconds >= _WORTH * elapsed
        self._begin()

    def queued(self, blocks_before: int, *, had_to_wait: bool) -> int:
        """A block was queued, behind so many; by how many blocks the queue is longer now."""
        self._blocks += 1
        self._deepest = max(self._deepest, blocks_before + 1)
        self._was_full |= had_to_wait
        self._was_empty |= not blocks_before
        if self._blocks < _BLOCKS:
            return 0
        before = self.queued_blocks
        if self._was_full and self._was_empty:
            self.queued_blocks = min(self._most_queued, 2 * before)
        elif self._deepest <= before // 2:
            self.queued_blocks = max(min(LEAST_QUEUED, self._most_queued), before // 2)
        self._begin()
        return self.queued_blocks - before

    def _begin(self) -> None:
        self._since = clock.elapsed_seconds()
        self._blocks = 0
        self._waited_seconds = 0.0
        self._deepest = 0
        self._was_full = self._was_empty = False
