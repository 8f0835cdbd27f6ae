"""Writes of many clients by a few threads, in turns between clients."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final

# Writes wait for the disk most of the time, and disks do not get faster by more of them.
WRITING_THREADS: Final = 8


class WriterPool:
    """A client that has much to write cannot keep the threads from others.

    They take one write of each client in turn. `_condition` guards everything; threads start with
    the first write and end with `stop`.
    """

    def __init__(self, threads: int = WRITING_THREADS) -> None:
        self._most = threads
        self._condition = threading.Condition()
        self._waiting: dict[str, deque[tuple[Future[None], Callable[[], None]]]] = {}
        self._turns: deque[str] = deque()
        self._threads: list[threading.Thread] = []
        self._is_stopped = False

    def submit(self, client: str, work: Callable[[], None]) -> Future[None]:
        """Do `work` in the turn of `client`; the future has its end."""
        future: Future[None] = Future()
        with self._condition:
            queue = self._waiting.get(client)
            if queue is None:
                queue = self._waiting[client] = deque()
                self._turns.append(client)
            queue.append((future, work))
            if len(self._threads) < self._most and not self._is_stopped:
                thread = threading.Thread(target=self._run, name="pack writer", daemon=True)
                thread.start()
                self._threads.append(thread)
            self._condition.notify()
        return future

    def stop(self) -> None:
        """Do what was submitted, and end the threads."""
        with self._condition:
            self._is_stopped = True
            self._condition.notify_all()
            threads = list(self._threads)
        for thread in threads:
            thread.join()

    def _run(self) -> None:
        while True:
            with self._condition:
                while not self._turns:
                    if self._is_stopped:
                        return
                    self._condition.wait()
                client = self._turns.popleft()
                queue = self._waiting[client]
                future, work = queue.popleft()
                if queue:
                    self._turns.append(client)
                else:
                    del self._waiting[client]
            try:
                work()
            except BaseException as error:  # noqa: BLE001 - it is the submitter's to handle
                future.set_exception(error)
            else:
                future.set_result(None)
