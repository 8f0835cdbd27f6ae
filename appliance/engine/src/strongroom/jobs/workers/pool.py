"""Worker processes that answer one task with one reply, and the order in which tasks are done.

`submit` hands a task to the worker with the least to do and waits while all have enough; a reply
is given to the function that came with the task, always in the process (and the thread) that
submits. A worker is a forked process (`shard_process`), so tasks and replies are plain values.
"""

from __future__ import annotations

import os
import selectors
import signal
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from strongroom import errors
from strongroom.jobs.workers.channel import ChannelClosedError, CoordinatorChannel, channel_pair
from strongroom.jobs.workers.fork import fork_shard

if TYPE_CHECKING:
    from collections.abc import Callable

    from strongroom.jobs.workers.channel import ShardChannel

TASKS_IN_FLIGHT: Final = 2


class _Worker:
    __slots__ = ("channel", "pid", "waiting")

    def __init__(self, channel: CoordinatorChannel, pid: int) -> None:
        self.channel = channel
        self.pid = pid
        self.waiting: deque[Callable[[Any], None]] = deque()


class WorkerPool:
    """Forked workers, each running `serve(channel)`: receive a task, send its reply, for ever.

    Must be made before this process starts a thread that works for the job.
    """

    def __init__(self, count: int, serve: Callable[[ShardChannel], None]) -> None:
        self._selector = selectors.DefaultSelector()
        self._workers: list[_Worker] = []
        self._last: _Worker | None = None
        for _ in range(count):
            ours, theirs = channel_pair()
            others = [worker.channel.socket for worker in self._workers]
            pid = fork_shard(theirs, serve, [ours, *others])
            worker = _Worker(CoordinatorChannel(ours), pid)
            self._workers.append(worker)
            self._selector.register(ours, selectors.EVENT_READ, worker)

    def submit(
        self, task: Any, done: Callable[[Any], None], *, by_last_worker: bool = False
    ) -> None:
        """Have `task` done; `done(reply)` is called in some later call of this pool.

        by_last_worker: by the one that got the last task. Raises StrongroomError when a worker
        failed.
        """
        worker = self._choose(by_last_worker)
        while len(worker.waiting) >= TASKS_IN_FLIGHT:
            self._turn()
            worker = self._choose(by_last_worker)
        self._last = worker
        worker.waiting.append(done)
        try:
            worker.channel.send(task)
        except ChannelClosedError as error:
            raise _died() from error
        self._watch(worker)

    def _choose(self, by_last_worker: bool) -> _Worker:
        if by_last_worker and self._last is not None:
            return self._last
        return min(self._workers, key=_load)

    def drain(self) -> None:
        """Wait until every task is done."""
        while any(worker.waiting for worker in self._workers):
            self._turn()

    def close(self, *, kill: bool = False) -> None:
        """End the workers; with `kill` at once, in the middle of a task."""
        self._selector.close()
        for worker in self._workers:
            worker.channel.socket.close()
            if kill:
                with suppress(ProcessLookupError):
                    os.kill(worker.pid, signal.SIGTERM)
        for worker in self._workers:
            with suppress(ChildProcessError):
                os.waitpid(worker.pid, 0)
        self._workers = []

    def _turn(self) -> None:
        for key, events in self._selector.select():
            worker: _Worker = key.data
            try:
                if events & selectors.EVENT_WRITE:
                    worker.channel.flush()
                replies = worker.channel.receive() if events & selectors.EVENT_READ else []
            except ChannelClosedError as error:
                raise _died() from error
            for reply in replies:
                if isinstance(reply, list) and reply[:1] == ["failed"]:
                    error_id, exit_code, text = reply[1:]
                    raise errors.error_named(error_id, text, exit_code=exit_code)
                worker.waiting.popleft()(reply)
            self._watch(worker)

    def _watch(self, worker: _Worker) -> None:
        events = selectors.EVENT_READ
        if worker.channel.has_outgoing:
            events |= selectors.EVENT_WRITE
        self._selector.modify(worker.channel.socket, events, worker)


class Marks:
    """Numbers for things begun, in order; tells up to where all of them have ended."""

    def __init__(self) -> None:
        self._next = 0
        self._open: dict[int, int] = {}

    def begin(self) -> int:
        """The number of something that begins now; it ends by one `end`."""
        self._next += 1
        self._open[self._next] = 1
        return self._next

    def hold(self, number: int) -> None:
        """What has this number takes one more `end`."""
        self._open[number] += 1

    def end(self, number: int) -> None:
        """One of the things with this number has ended."""
        self._open[number] -= 1
        if not self._open[number]:
            del self._open[number]

    def has_ended(self, number: int) -> bool:
        """Whether everything up to `number` has ended."""
        return next(iter(self._open), self._next + 1) > number


def _load(worker: _Worker) -> int:
    return len(worker.waiting)


def _died() -> errors.StrongroomError:
    return errors.StrongroomError(
        "a worker process died (killed by the system, perhaps for want of memory); run the same "
        "command again, it goes on where it ended"
    )
