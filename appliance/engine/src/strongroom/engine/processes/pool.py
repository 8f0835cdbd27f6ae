"""Child processes that answer one task with one reply.

`submit` gives a task to the least loaded child and blocks while all have enough; a reply is
passed to the function that came with the task, always in the process (and the thread) that
submits. A child is a forked process (see `fork`), so tasks and replies are messages.
"""

from __future__ import annotations

import os
import selectors
import signal
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Generic, TypeVar

from strongroom.base import errors
from strongroom.engine.processes.channel import (
    ChannelClosedError,
    ChildChannel,
    CoordinatorChannel,
    Failed,
    ProcessMessage,
    channel_pair,
    error_of,
)
from strongroom.engine.processes.fork import fork_child

_Task = TypeVar("_Task", bound=ProcessMessage)
_Reply = TypeVar("_Reply", bound=ProcessMessage)

TASKS_IN_FLIGHT: Final = 2
# Where a task is for a certain child: the next ones may be for others, which wait meanwhile.
TASKS_BY_LAST: Final = 4


class _Child(Generic[_Reply]):
    __slots__ = ("channel", "pid", "waiting")

    def __init__(self, channel: CoordinatorChannel[_Reply | Failed], pid: int) -> None:
        self.channel = channel
        self.pid = pid
        self.waiting: deque[Callable[[_Reply], None]] = deque()


class ProcessPool(Generic[_Task, _Reply]):
    """Forked children, each running `serve(channel)`: receive a task, send its reply, in a loop.

    Must be made before this process starts a thread that works for the job.
    """

    def __init__(
        self,
        count: int,
        serve: Callable[[ChildChannel[_Task]], None],
        decode_task: Callable[[memoryview], _Task],
        decode_reply: Callable[[memoryview], _Reply | Failed],
    ) -> None:
        self._selector = selectors.DefaultSelector()
        self._children: list[_Child[_Reply]] = []
        self._last: _Child[_Reply] | None = None
        for _ in range(count):
            ours, theirs = channel_pair()
            others = [child.channel.socket for child in self._children]
            pid = fork_child(theirs, decode_task, serve, [ours, *others])
            child = _Child(CoordinatorChannel(ours, decode_reply), pid)
            self._children.append(child)
            self._selector.register(ours, selectors.EVENT_READ, child)

    def submit(
        self, task: _Task, done: Callable[[_Reply], None], *, by_last_child: bool = False
    ) -> None:
        """Queue `task`; `done(reply)` is called during a later call of this pool.

        by_last_child: by the child that got the last task. Raises StrongroomError when a child
        failed.
        """
        child = self._choose(by_last_child)
        most = TASKS_BY_LAST if by_last_child else TASKS_IN_FLIGHT
        while len(child.waiting) >= most:
            self._turn()
            child = self._choose(by_last_child)
        self._last = child
        child.waiting.append(done)
        try:
            child.channel.send(task)
        except ChannelClosedError as error:
            raise _died() from error
        self._watch(child)

    def _choose(self, by_last_child: bool) -> _Child[_Reply]:
        if by_last_child and self._last is not None:
            return self._last
        return min(self._children, key=_load)

    def drain(self) -> None:
        """Wait until every task is done."""
        while any(child.waiting for child in self._children):
            self._turn()

    def close(self, *, kill: bool = False) -> None:
        """End the children; with `kill` immediately, in the middle of a task."""
        self._selector.close()
        for child in self._children:
            child.channel.socket.close()
            if kill:
                with suppress(ProcessLookupError):
                    os.kill(child.pid, signal.SIGTERM)
        for child in self._children:
            with suppress(ChildProcessError):
                os.waitpid(child.pid, 0)
        self._children = []

    def _turn(self) -> None:
        for key, events in self._selector.select():
            child: _Child[_Reply] = key.data
            try:
                if events & selectors.EVENT_WRITE:
                    child.channel.flush()
                replies = child.channel.receive() if events & selectors.EVENT_READ else []
            except ChannelClosedError as error:
                raise _died() from error
            for reply in replies:
                if isinstance(reply, Failed):
                    raise error_of(reply)
                child.waiting.popleft()(reply)
            self._watch(child)

    def _watch(self, child: _Child[_Reply]) -> None:
        events = selectors.EVENT_READ
        if child.channel.has_outgoing:
            events |= selectors.EVENT_WRITE
        self._selector.modify(child.channel.socket, events, child)


def _load(child: _Child[_Reply]) -> int:
    return len(child.waiting)


def _died() -> errors.StrongroomError:
    return errors.StrongroomError(
        "a child process was killed by the system, perhaps for lack of memory; run the same "
        "command again, it continues where it stopped"
    )
