"""Threads that hide the latency of a slow file system for one shard.

Work on a directory is a generator of *lots*: calls that may be made concurrently. The shard's
thread runs the generators; the calls of a lot go to the threads, and when the last has returned
the generator resumes. So everything but the blocking calls happens in one thread, without locks,
and the same generators run without any thread through `run_here`.

Each thread has a working directory of its own (`unshare`), so that a call may change into its
directory and use short relative names there. A call may read the state of its generator, but
changes only its own result.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections import deque
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

_CLONE_FS: Final = 0x200
# File content that lots may hold at the same time; one lot is always allowed.
BYTES_IN_FLIGHT: Final = 16 << 20


class Lot(NamedTuple):
    """One or more calls that may run concurrently, and the most content they may return."""

    calls: Sequence[Callable[[], Any]]
    size_bytes: int = 0


Steps: TypeAlias = "Generator[Lot, list[Any], None]"


def run_here(steps: Steps) -> None:
    """Run all calls of `steps` in this thread, in order."""
    try:
        lot = next(steps)
        while True:
            try:
                results = [call() for call in lot.calls]
            except OSError as error:
                lot = steps.throw(error)
            else:
                lot = steps.send(results)
    except StopIteration:
        return


def own_working_directory() -> bool:
    """Give this thread a working directory of its own; False where a sandbox forbids that."""
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


class ScanPool:
    """Runs generators with `thread_count` threads, started with the first lot.

    Only the shard's thread calls the methods. `descriptor` is readable when `go_on` has something
    to do. Calls are taken from all lots in turn: some file systems let only one call into a
    directory at a time, and threads that queued there would be lost to the other directories.
    The lock guards the queue of lots and their counts; the semaphore counts calls not yet taken.
    """

    def __init__(self, thread_count: int) -> None:
        self.thread_count = thread_count
        self.running = 0
        self.descriptor = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._in_turn: deque[_RunningSteps] = deque()
        self._calls = threading.Semaphore(0)
        self._done: SimpleQueue[_RunningSteps] = SimpleQueue()
        self._lock = threading.Lock()
        self._waiting: deque[_RunningSteps] = deque()
        self._bytes = 0
        self._is_started = False

    @property
    def has_room(self) -> bool:
        """Whether a thread is free for another generator."""
        return self.running < self.thread_count

    def begin(self, steps: Steps) -> None:
        """Run `steps` up to its first lot. Raises what it raises."""
        if not self._is_started:
            self._is_started = True
            for _ in range(self.thread_count):
                threading.Thread(target=self._serve, name="scan", daemon=True).start()
        self.running += 1
        self._advance(_RunningSteps(steps))

    def go_on(self) -> None:
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
        run.results = [None] * len(run.lot.calls)
        # Lots without content overtake those that wait for room.
        if run.lot.size_bytes and (self._waiting or not self._fits(run.lot)):
            self._waiting.append(run)
        else:
            self._hand_out(run)

    def _fits(self, lot: Lot) -> bool:
        return not self._bytes or self._bytes + lot.size_bytes <= BYTES_IN_FLIGHT

    def _hand_out(self, run: _RunningSteps) -> None:
        self._bytes += run.lot.size_bytes
        run.missing = len(run.lot.calls)
        run.taken = 0
        with self._lock:
            self._in_turn.append(run)
        self._calls.release(run.missing)

    def _serve(self) -> None:
        own_working_directory()
        while True:
            self._calls.acquire()
            with self._lock:
                run = self._in_turn.popleft()
                place = run.taken
                run.taken += 1
                if run.taken < len(run.lot.calls):
                    self._in_turn.append(run)
            try:
                run.results[place] = run.lot.calls[place]()
            except BaseException as error:  # noqa: BLE001 - raised in the generator
                run.error = error
            with self._lock:
                run.missing -= 1
                is_last = not run.missing
            if is_last:
                self._done.put(run)
                os.eventfd_write(self.descriptor, 1)
