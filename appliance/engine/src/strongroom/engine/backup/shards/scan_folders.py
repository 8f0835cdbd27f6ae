"""Which file systems answer so late that a shard scans them with threads: found out on the way.

Network and FUSE file systems are known by their type. Of every other one calls are timed: all of
the first ones, later now and then. A call *waits* while it neither computes nor has to give way to
another process. Where the calls of a file system wait several times as long as they compute, its
directories go to the threads, the one being scanned included; from time to time one is scanned
without them again, for what a cold disk has read is in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from strongroom.base import clock
from strongroom.engine.backup.shards.scan_pace import ShardPace
from strongroom.engine.backup.shards.scan_threads import Lot
from strongroom.engine.writing.store_pace import Spent, Waiting

# Names of one call: few where each waits, or may, so that threads share them.
_SLOW_ROWS: Final = 4
_QUICK_ROWS: Final = 256
# A judgement takes so many calls, or so long a wait of some; at least half of them have to wait,
# for one that waits alone says nothing of the others.
_CALLS: Final = 8
_SOME_CALLS: Final = 3
_WAIT_SECONDS: Final = 0.05
# After so many calls that did not wait the file system counts as quick, and is timed once in so
# many operations.
_KNOWN_CALLS: Final = 64
_TIMED_OPERATIONS: Final = 256
# Slow: calls wait so many times as long as they compute, and an operation at least so long.
_WAIT_FACTOR: Final = 3.0
_OPERATION_SECONDS: Final = 50e-6
# Until the first directory that is scanned without threads again; twice as long after each.
_PAUSE_SECONDS: Final = 0.5


class Place:
    """One file system, as one shard knows it. `is_slow`: scan it with the threads of `pace`."""

    def __init__(self, pace: ShardPace, *, is_slow: bool, is_settled: bool) -> None:
        """`is_settled`: it stays as it is, whatever its calls do."""
        self.is_slow = is_slow
        self._pace = pace
        self._is_settled = is_settled
        self._is_known = is_settled
        self._pause_seconds = _PAUSE_SECONDS
        self._slow_since = 0.0
        self._operations_left = 0
        self._quick_calls = 0
        self._forget()

    def windows(self, items: Sequence[Any]) -> list[Any]:
        """Neighbouring items for each call, at least one window."""
        if self.is_slow:
            size = min(_SLOW_ROWS, -(-len(items) // self._pace.threads))
        elif self._is_settled:
            return [items]
        else:
            size = _QUICK_ROWS if self._is_known else _SLOW_ROWS
        if len(items) <= size:
            return [items]
        return [items[start : start + size] for start in range(0, len(items), size)]

    @property
    def is_due(self) -> bool:
        """Whether the next directory is to be scanned without threads, to see if it still waits."""
        return (
            self.is_slow
            and not self._is_settled
            and clock.elapsed_seconds() - self._slow_since >= self._pause_seconds
        )

    def try_without(self) -> None:
        """Begin anew, as if nothing were known of the file system."""
        self.is_slow = self._is_known = False
        self._quick_calls = 0
        self._pause_seconds *= 2
        self._forget()

    def run(self, lot: Lot) -> list[Any]:
        """Make the calls of `lot`, in order, up to where the file system turns out to be slow.

        Raises what they raise.
        """
        if self._is_settled:
            return [call() for call in lot.calls]
        if self.is_slow:
            return []
        if self._is_known:
            self._operations_left -= lot.operations
            if self._operations_left > 0:
                return [call() for call in lot.calls]
            self._operations_left = _TIMED_OPERATIONS
        results: list[Any] = []
        for call in lot.calls:
            waiting = Waiting()
            try:
                results.append(call())
            finally:
                is_slow = self._took(lot.operations / len(lot.calls), waiting.spent())
            if is_slow:
                break
        return results

    def _took(self, operations: float, spent: Spent) -> bool:
        """Count a call; whether the file system is slow."""
        self._calls += 1
        self._waiting_calls += spent.waited > 0
        self._operations += operations
        self._waited += spent.waited
        self._computed += spent.computed
        is_enough = self._calls >= _SOME_CALLS and self._waited >= _WAIT_SECONDS
        if self._calls < _CALLS and not is_enough:
            return False
        if (
            2 * self._waiting_calls >= self._calls
            and self._waited >= _WAIT_FACTOR * self._computed
            and self._waited >= _OPERATION_SECONDS * self._operations
        ):
            self.is_slow = True
            self._slow_since = clock.elapsed_seconds()
        else:
            self._quick_calls += self._calls
            if self._quick_calls >= _KNOWN_CALLS:
                self._is_known = True
        self._forget()
        return self.is_slow

    def _forget(self) -> None:
        self._calls = self._waiting_calls = 0
        self._operations = 0.0
        self._waited = self._computed = 0.0


class ScanPlan(NamedTuple):
    """What the shards get.

    `asked`: threads, 0 for as many as are worth it. `mounts`: mount points, and whether each is
    reached over a network.
    """

    asked: int
    mounts: dict[bytes, bool]


class Places:
    """The file systems that a shard scans, by their mount points."""

    def __init__(self, plan: ScanPlan, pace: ShardPace) -> None:
        self._places = {
            point: Place(pace, is_slow=is_far, is_settled=is_far)
            for point, is_far in plan.mounts.items()
        }
        self._deepest = max((point.count(b"/") + 1 for point in self._places), default=0)
        self._rest = Place(pace, is_slow=plan.asked > 1, is_settled=plan.asked > 0)

    def of(self, path: bytes) -> Place:
        """That of a directory."""
        places = self._places
        if not places:
            return self._rest
        # Only as much of a deep path as a mount point can be.
        path = b"/".join(path.split(b"/", self._deepest)[: self._deepest])
        while path not in places:
            if not path:
                return self._rest
            path = path.rpartition(b"/")[0]
        return places[path]
