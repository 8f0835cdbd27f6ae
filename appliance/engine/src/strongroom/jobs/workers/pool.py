"""Worker processes that answer one task with one reply.

`submit` gives a task to the least loaded worker and blocks while all have enough; a reply is
passed to the function that came with the task, always in the process (and the thread) that
submits. A worker is a forked process (see `fork`), so tasks and replies are messages.
"""

from __future__ import annotations

import os
import selectors
import signal
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from strongroom import errors
from strongroom.jobs.workers.channel import ChannelClosedError, CoordinatorChannel, channel_pair
from strongroom.jobs.workers.fork import fork_worker
from strongroom.jobs.workers.messages import Failed, WorkerMessage, error_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from strongroom.jobs.workers.channel import WorkerChannel

_Task = TypeVar("_Task", bound=WorkerMessage)
_Reply = TypeVar("_Reply", bound=WorkerMessage)

TASKS_IN_FLIGHT: Final = 2
# Where a task is for a certain worker: the next ones may be for others, which wait meanwhile.
TASKS_BY_LAST: Final = 4


class _Worker(Generic[_Reply]):
    __slots__ = ("channel", "pid", "waiting")

    def __init__(self, channel: CoordinatorChannel[_Reply | Failed], pid: int) -> None:
        self.channel = channel
        self.pid = pid
        self.waiting: deque[Callable[[_Reply], None]] = deque()


class WorkerPool(Generic[_Task, _Reply]):
    """Forked workers, each running `serve(channel)`: receive a task, send its reply, in a loop.

    Must be made before this process starts a thread that works for the job.
    """

    def __init__(
        self,
        count: int,
        serve: Callable[[WorkerChannel[_Task]], None],
        decode_task: Callable[[memoryview], _Task],
        decode_reply: Callable[[memoryview], _Reply | Failed],
    ) -> None:
        self._selector = selectors.DefaultSelector()
        self._workers: list[_Worker[_Reply]] = []
        self._last: _Worker[_Reply] | None = None
        for _ in range(count):
            ours, theirs = channel_pair()
            others = [worker.channel.socket for worker in self._workers]
            pid = fork_worker(theirs, decode_task, serve, [ours, *others])
            worker = _Worker(CoordinatorChannel(ours, decode_reply), pid)
            self._workers.append(worker)
            self._selector.register(ours, selectors.EVENT_READ, worker)

    def submit(
        self, task: _Task, done: Callable[[_Reply], None], *, by_last_worker: bool = False
    ) -> None:
        """Queue `task`; `done(reply)` is called during a later call of this pool.

        by_last_worker: by the worker that got the last task. Raises StrongroomError when a worker
        failed.
        """
        worker = self._choose(by_last_worker)
        most = TASKS_BY_LAST if by_last_worker else TASKS_IN_FLIGHT
        while len(worker.waiting) >= most:
            self._turn()
            worker = self._choose(by_last_worker)
        self._last = worker
        worker.waiting.append(done)
        try:
            worker.channel.send(task)
        except ChannelClosedError as error:
            raise _died() from error
        self._watch(worker)

    def _choose(self, by_last_worker: bool) -> _Worker[_Reply]:
        if by_last_worker and self._last is not None:
            return self._last
        return min(self._workers, key=_load)

    def drain(self) -> None:
        """Wait until every task is done."""
        while any(worker.waiting for worker in self._workers):
            self._turn()

    def close(self, *, kill: bool = False) -> None:
        """End the workers; with `kill` immediately, in the middle of a task."""
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
            worker: _Worker[_Reply] = key.data
            try:
                if events & selectors.EVENT_WRITE:
                    worker.channel.flush()
                replies = worker.channel.receive() if events & selectors.EVENT_READ else []
            except ChannelClosedError as error:
                raise _died() from error
            for reply in replies:
                if isinstance(reply, Failed):
                    raise error_of(reply)
                worker.waiting.popleft()(reply)
            self._watch(worker)

    def _watch(self, worker: _Worker[_Reply]) -> None:
        events = selectors.EVENT_READ
        if worker.channel.has_outgoing:
            events |= selectors.EVENT_WRITE
        self._selector.modify(worker.channel.socket, events, worker)


def _load(worker: _Worker[_Reply]) -> int:
    return len(worker.waiting)


def _died() -> errors.StrongroomError:
    return errors.StrongroomError(
        "a worker process died (killed by the system, perhaps for lack of memory); run the same "
        "command again, it continues where it stopped"
    )
