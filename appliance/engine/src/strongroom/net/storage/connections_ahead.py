"""Connections that are made before they are needed, because making one takes time.

Each is made by a thread of its own. `take` waits until all threads have ended, so a fork
afterwards copies no running thread, and no lock that one holds.
"""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, Final

from strongroom import clock
from strongroom.errors import StrongroomError

if TYPE_CHECKING:
    from collections.abc import Callable

    from strongroom.net.storage.client import StorageClient

_LOOK_SECONDS: Final = 0.0005
# Where the machine is so busy that a thread does not get to its end.
_LONGEST_END_SECONDS: Final = 10.0


class ConnectionsAhead:
    """`count` connections, each to be taken once; for one thread."""

    def __init__(self, connect: Callable[[], StorageClient], count: int) -> None:
        self._connect = connect
        self._made: list[StorageClient] = []
        self._failures: list[Exception] = []
        self._threads = [
            threading.Thread(target=self._make, name="connecting", daemon=True)
            for _ in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def take(self) -> StorageClient | None:
        """One of them, None when none is left; failed connections do not count."""
        while self._threads:
            _await_end(self._threads.pop())
        return self._made.pop() if self._made else None

    def take_only(self) -> StorageClient | None:
        """The only one; None when there was none, or it is taken. Raises why it failed."""
        client = self.take()
        if client is None and self._failures:
            raise self._failures.pop()
        return client

    def close(self) -> None:
        """Close those that were not taken."""
        while self._threads:
            _await_end(self._threads.pop())
        while self._made:
            self._made.pop().close()

    def _make(self) -> None:
        try:
            self._made.append(self._connect())
        except (StrongroomError, OSError) as error:
            self._failures.append(error)


def _await_end(thread: threading.Thread) -> None:
    """Return when a thread is gone from the process.

    Before Python 3.13 `join` returns when the thread runs no Python any more. At its very end it
    takes a lock of OpenSSL: copied by a fork, that is never released, and the child waits for ever.
    """
    thread.join()
    task = f"/proc/self/task/{thread.native_id}"
    deadline = clock.elapsed_seconds() + _LONGEST_END_SECONDS
    while os.path.exists(task) and clock.elapsed_seconds() < deadline:
        time.sleep(_LOOK_SECONDS)
