"""One number of scan threads for all shards, in memory that they share.

Shards that wait for one server, disk or link each see what all of them do to it: one that has fewer
threads than before waits as long as ever if the others have more. So each only counts its calls;
the coordinator adds them up and decides for all (`scan_pace`). Each word is written by one process.
"""

from __future__ import annotations

import mmap
from typing import Final, NamedTuple

from strongroom import clock
from strongroom.clock import SECOND_NS
from strongroom.jobs.backup.shards.scan_pace import GIVEN, QUICK, Pace

# What calls do; each is compared with its own kind. OTHER calls differ too much to be compared.
OTHER: Final = ""
LIST, EXAMINE, ATTRIBUTES, READ = KINDS = ("list", "examine", "attributes", "read")
# Words of a shard: calls, operations and nanoseconds waited of each kind; how often all threads
# were in use; whether it has needed threads at all.
_KIND_WORDS: Final = 3
_FULL: Final = _KIND_WORDS * len(KINDS)
_IS_USED: Final = _FULL + 1
# Two cache lines for each shard, to avoid false sharing.
_WORDS: Final = 16
_WORD_BYTES: Final = 8
# Words of the coordinator, after those of the shards: the number of threads; the time from which
# on calls are counted.
_THREADS: Final = 0
_SINCE: Final = 1


class ScanChoice(NamedTuple):
    """Threads that shards scanned with at most, and what kept them from more."""

    threads: int
    bound: str


class ShardPace:
    """What a shard sees of the pace, and tells."""

    def __init__(self, words: memoryview, common: memoryview) -> None:
        self._words = words
        self._common = common

    @property
    def threads(self) -> int:
        """How many there should be now."""
        return self._common[_THREADS]

    @property
    def since_ns(self) -> int:
        """The time (`clock.elapsed_seconds`) from which on calls that begin are counted."""
        return self._common[_SINCE]

    def begin(self) -> None:
        """The shard needs threads."""
        self._words[_IS_USED] = 1

    def is_full(self) -> None:
        """Calls wait for a thread: all are in use."""
        self._words[_FULL] += 1

    def took(self, kind: str, calls: int, operations: int, waited_ns: int) -> None:
        """So many calls have ended: with so many operations, which waited so long together."""
        if kind == OTHER:
            return
        at = _KIND_WORDS * KINDS.index(kind)
        self._words[at] += calls
        self._words[at + 1] += operations
        self._words[at + 2] += waited_ns


class SharedPace:
    """The coordinator's. Create it before the shards are forked."""

    def __init__(self, shard_count: int, pace: Pace) -> None:
        memory = mmap.mmap(-1, (shard_count + 1) * _WORDS * _WORD_BYTES)
        self._words = memoryview(memory).cast("Q")
        self._shard_count = shard_count
        self._pace = pace
        self._common = self._of(shard_count)
        self._common[_THREADS] = pace.threads
        self._told = [0] * _IS_USED

    def of_shard(self, number: int) -> ShardPace:
        """That of a shard."""
        return ShardPace(self._of(number), self._common)

    def threads_of(self, number: int) -> int:
        """Threads that a shard scans with now: its own, until it needs more."""
        return self._pace.threads if self._words[number * _WORDS + _IS_USED] else 1

    @property
    def is_adjusted(self) -> bool:
        """Whether there is something to adjust: no number was given, and shards need threads."""
        return not self._pace.is_fixed and self._used() > 0

    def adjust(self) -> None:
        """Add up what the shards told, and choose the number."""
        used = self._used()
        shards = [self._of(number)[:_IS_USED].tolist() for number in range(self._shard_count)]
        told = list(map(sum, zip(*shards, strict=True)))
        new = [now - before for now, before in zip(told, self._told, strict=True)]
        self._told = told
        if new[_FULL]:
            self._pace.is_full()
        for place, kind in enumerate(KINDS):
            calls, operations, waited_ns = new[_KIND_WORDS * place :][:_KIND_WORDS]
            if calls:
                self._pace.took(kind, calls / used, operations, waited_ns / SECOND_NS)
        settles = self._pace.adjust()
        if settles is not None:
            self._common[_SINCE] = round((clock.elapsed_seconds() + settles) * SECOND_NS)
            self._common[_THREADS] = self._pace.threads

    def choice(self) -> ScanChoice:
        """What was chosen so far."""
        if self._used():
            return ScanChoice(self._pace.highest, self._pace.bound)
        return ScanChoice(1, GIVEN if self._pace.is_fixed else QUICK)

    def _used(self) -> int:
        return sum(self._words[_IS_USED : self._shard_count * _WORDS : _WORDS])

    def _of(self, number: int) -> memoryview:
        return self._words[number * _WORDS : (number + 1) * _WORDS]
