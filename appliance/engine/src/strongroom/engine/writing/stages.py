"""What the threads of a job spend their time on, for progress and reports: what bounds the job.

The thread of a shard is in one stage at a time and says so with `during`. Where worker threads
compress and store, they count what they spent on it, while the shard's thread continues. The words
may lie in shared memory: a reader sees the stage that lasts as well, see `seconds_of`.

`_lock` guards what workers count; the other words are written by the shard's thread alone.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from strongroom.base import clock
from strongroom.base.clock import SECOND_NS

# By number: examine and read; wait for the coordinator, which has nothing to do or is busy; wait
# for a place in the queue of the workers; compress; encrypt and write or send.
STAGES: Final = ("read", "wait", "queue", "compress", "store")
READ, WAIT, QUEUE, COMPRESS, STORE = range(len(STAGES))
_CURRENT: Final = len(STAGES)
_SINCE: Final = _CURRENT + 1
_QUEUED: Final = _SINCE + 1
_LONGEST: Final = _QUEUED + 1
STAGE_WORDS: Final = _LONGEST + 1


class StageTimes:
    """Of one shard. words: STAGE_WORDS of 64 bits, all 0; by default in memory of its own."""

    def __init__(self, words: memoryview | None = None) -> None:
        self._words = memoryview(bytearray(8 * STAGE_WORDS)).cast("Q") if words is None else words
        self._lock = threading.Lock()

    def begin(self) -> None:
        """The shard's thread begins, with reading."""
        self._words[_CURRENT] = READ
        self._words[_SINCE] = _now_ns()

    @contextmanager
    def during(self, stage: int) -> Iterator[None]:
        """The shard's thread is in a stage; afterwards in the one before."""
        before = self._words[_CURRENT]
        self._enter(stage)
        try:
            yield
        finally:
            self._enter(before)

    @contextmanager
    def worker_during(self, stage: int) -> Iterator[None]:
        """A worker is in a stage; it is counted when it ends."""
        begun_ns = _now_ns()
        try:
            yield
        finally:
            with self._lock:
                self._words[stage] += _now_ns() - begun_ns

    def queued(self, change: int) -> None:
        """So many blocks more wait for workers, or fewer."""
        with self._lock:
            self._words[_QUEUED] += change

    def tell_queue(self, blocks: int) -> None:
        """So many blocks may wait for workers, or for the thread that stores."""
        self._words[_LONGEST] = max(self._words[_LONGEST], blocks)

    def _enter(self, stage: int) -> None:
        words = self._words
        now_ns = _now_ns()
        words[words[_CURRENT]] += max(0, now_ns - words[_SINCE])
        words[_CURRENT] = stage
        words[_SINCE] = now_ns


def seconds_of(words: memoryview) -> list[float]:
    """Seconds spent in each of STAGES up to now, from the words of one shard."""
    spent_ns = list(words[: len(STAGES)])
    current, since_ns = words[_CURRENT], words[_SINCE]
    if since_ns:
        spent_ns[current] += max(0, _now_ns() - since_ns)
    return [one_ns / SECOND_NS for one_ns in spent_ns]


def queued_of(words: memoryview) -> int:
    """How many blocks wait for workers, from the words of one shard."""
    return int(words[_QUEUED])


def longest_queue_of(words: memoryview) -> int:
    """How many blocks could wait at most, from the words of one shard; 0 without such threads."""
    return int(words[_LONGEST])


def _now_ns() -> int:
    return int(clock.elapsed_seconds() * SECOND_NS)
