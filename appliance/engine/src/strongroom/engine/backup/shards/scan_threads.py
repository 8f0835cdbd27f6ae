"""Threads that hide the latency of a slow file system for one shard.

Work on a directory is a generator of *lots*: calls that may be made concurrently. The shard's
thread runs the generators; the calls of a lot go to the threads, and when the last has returned
the generator resumes. So everything but the blocking calls happens in one thread, without locks,
and the same generators run without any thread through `run_here`.

Each thread has its own working directory (`unshare`), so that a call may change into its
directory and use short relative names there. A call may read the state of its generator, but
changes only its own result.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Sequence
from queue import SimpleQueue
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.engine.backup.shards.scan_pace import EXAMINE, OTHER, ShardPace

_CLONE_FS: Final = 0x200
# File content that lots may hold at the same time; one lot is always allowed.
BYTES_IN_FLIGHT: Final = 16 << 20
# Generators that run at the same time: more than threads, so that the last directories of a tree
# are not so few that threads queue in them.
_STEPS_A_THREAD: Final = 2


class Lot(NamedTuple):
    """One or more calls that may run concurrently.

    size_bytes: the most content they may return. kind: what they do, one of `scan_pace.KINDS`
    or OTHER; operations: on how many entries, all together.
    """

    calls: Sequence[Callable[[], Any]]
    size_bytes: int = 0
    kind: str = OTHER
    operations: int = 1


Steps: TypeAlias = "Generator[Lot, list[Any], None]"


class LotRunner(Protocol):
    """Makes calls; gives fewer results than there are calls where others are to make the rest."""

    def run(self, lot: Lot) -> list[Any]:
        """Make the calls in order. Raises what they raise."""


class _AllHere:
    def run(self, lot: Lot) -> list[Any]:
        return [call() for call in lot.calls]


ALL_HERE: Final = _AllHere()


def run_here(steps: Steps, runner: LotRunner = ALL_HERE) -> tuple[Lot, list[Any]] | None:
    """Run the calls of `steps` in this thread, in order.

    Returns the lot that is not done and the results that it has, where the runner made no more.
    """
    try:
        lot = next(steps)
        while True:
            try:
                results = runner.run(lot)
            except OSError as error:
                lot = steps.throw(error)
            else:
                if len(results) < len(lot.calls):
                    return lot, results
                lot = steps.send(results)
    except StopIteration:
        return None


def own_working_directory() -> bool:
    """Give this thread its own working directory; False where a sandbox forbids that."""
    return bool(ctypes.CDLL(None).unshare(_CLONE_FS) == 0)


class _RunningSteps:
    """A generator, and the lot it waits for."""

    __slots__ = ("error", "lot", "missing", "results", "steps", "taken")

    def __init__(self, steps: Steps) -> None:
        self.steps = steps
        self.lot = Lot(())
        self.missing = 0
        self.taken = 0
        self.results: list[Any] = []
        self.error: BaseException | None = None

    def operations_of(self, place: int) -> int:
        """How many of the lot's operations a call of it makes, about."""
        count, operations = len(self.lot.calls), self.lot.operations
        return (place + 1) * operations // count - place * operations // count


class ScanPool:
    """Runs generators with as many threads as `pace` says, started when they are needed.

    Only the shard's thread calls the public methods. `descriptor` is readable when `proceed` has
    something to do. Entries are examined in all directories in turn: some file systems let only one
    look-up into a directory at a time, and threads that queued there would be lost to the others.
    Every other lot goes first, the oldest of them foremost: what was examined is read while the
    kernel still knows it, for network and FUSE file systems let it forget after a second or more.
    The lock guards the queues of lots and their counts. A thread that was woken makes calls until
    none is left, or until there are more threads awake than there should be.
    """

    def __init__(self, pace: ShardPace) -> None:
        self.running = 0
        self.descriptor = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._pace = pace
        self._limit = pace.threads
        self._foremost: deque[_RunningSteps] = deque()
        self._in_turn: deque[_RunningSteps] = deque()
        self._untaken = 0
        self._awake = 0
        self._started = 0
        self._wakings: SimpleQueue[None] = SimpleQueue()
        self._done: SimpleQueue[_RunningSteps] = SimpleQueue()
        self._lock = threading.Lock()
        self._waiting: deque[_RunningSteps] = deque()
        self._bytes = 0

    @property
    def has_room(self) -> bool:
        """Whether another generator may begin."""
        return self.running < _STEPS_A_THREAD * self._limit

    def begin(self, steps: Steps, lot: Lot | None = None, results: Sequence[Any] = ()) -> None:
        """Run `steps` up to its next lot; that is `lot`, with these results, if one is given.

        Raises what `steps` raises.
        """
        self.running += 1
        self._pace.begin()
        run = _RunningSteps(steps)
        if lot is None:
            self._advance(run)
        else:
            run.lot = lot
            self._take_lot(run, results)

    def proceed(self) -> None:
        """Run every generator whose lot is done up to its next one. Raises what they raise."""
        try:
            os.eventfd_read(self.descriptor)
        except BlockingIOError:
            return
        while not self._done.empty():
            run = self._done.get()
            self._bytes -= run.lot.size_bytes
            self._advance(run)
            while self._waiting and self._fits(self._waiting[0].lot):
                self._hand_out(self._waiting.popleft())
        self._wake()

    def _advance(self, run: _RunningSteps) -> None:
        error, run.error = run.error, None
        try:
            if error is not None:
                run.lot = run.steps.throw(error)
            elif run.results:
                run.lot = run.steps.send(run.results)
            else:
                run.lot = next(run.steps)
        except StopIteration:
            self.running -= 1
            return
        self._take_lot(run, ())

    def _take_lot(self, run: _RunningSteps, results: Sequence[Any]) -> None:
        run.taken = len(results)
        run.missing = len(run.lot.calls) - run.taken
        run.results = [*results, *[None] * run.missing]
        # Lots without content overtake those that wait for room.
        if run.lot.size_bytes and (self._waiting or not self._fits(run.lot)):
            self._waiting.append(run)
        else:
            self._hand_out(run)

    def _fits(self, lot: Lot) -> bool:
        return not self._bytes or self._bytes + lot.size_bytes <= BYTES_IN_FLIGHT

    def _hand_out(self, run: _RunningSteps) -> None:
        self._bytes += run.lot.size_bytes
        with self._lock:
            lots = self._in_turn if run.lot.kind == EXAMINE else self._foremost
            lots.append(run)
            self._untaken += run.missing
        self._wake()

    def _wake(self) -> None:
        with self._lock:
            self._limit = self._pace.threads
            free = self._limit - self._awake
            if self._untaken > free:
                self._pace.is_full()
            woken = max(0, min(self._untaken, free))
            while self._started < self._awake + woken:
                try:
                    threading.Thread(target=self._serve, name="scan", daemon=True).start()
                except RuntimeError:
                    # The system gives no more threads: those there are do it all.
                    if not self._started:
                        raise
                    woken = self._started - self._awake
                    break
                self._started += 1
            self._awake += woken
        for _ in range(woken):
            self._wakings.put(None)

    def _serve(self) -> None:
        own_working_directory()
        while True:
            self._wakings.get()
            while (taken := self._take()) is not None:
                self._make(*taken)
                if self._pace.threads != self._limit:
                    self._wake()

    def _take(self) -> tuple[_RunningSteps, int] | None:
        """The next call, a place in a lot; None where this thread is to sleep."""
        with self._lock:
            if not self._untaken or self._awake > self._limit:
                self._awake -= 1
                return None
            lots = self._foremost or self._in_turn
            run = lots[0]
            place = run.taken
            run.taken += 1
            self._untaken -= 1
            if run.taken == len(run.lot.calls):
                lots.popleft()
            elif lots is self._in_turn:
                lots.rotate(-1)
            if self._untaken and self._awake >= self._limit:
                self._pace.is_full()
            return run, place

    def _make(self, run: _RunningSteps, place: int) -> None:
        try:
            begun, computed = clock.elapsed_seconds(), clock.thread_seconds()
            run.results[place] = run.lot.calls[place]()
            waited = clock.elapsed_seconds() - begun - (clock.thread_seconds() - computed)
            self._count(run, place, begun, waited)
        except BaseException as error:  # noqa: BLE001 - raised in the generator
            run.error = error
        with self._lock:
            run.missing -= 1
            is_last = not run.missing
        if is_last:
            self._done.put(run)
            os.eventfd_write(self.descriptor, 1)

    def _count(self, run: _RunningSteps, place: int, begun: float, waited: float) -> None:
        """Tell of a call; what began before the number changed says nothing of the threads now."""
        with self._lock:
            if round(begun * SECOND_NS) >= self._pace.since_ns:
                waited_ns = round(max(0.0, waited) * SECOND_NS)
                self._pace.took(run.lot.kind, 1, run.operations_of(place), waited_ns)
