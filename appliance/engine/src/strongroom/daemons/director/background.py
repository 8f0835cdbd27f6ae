"""Background activities of the director, which it can wait for and stop."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Coroutine

_log = logging.getLogger(__name__)


class Background:
    """The tasks of one event loop."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def spawn(self, activity: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start an activity; `settle` waits for it, its failure is logged."""
        task = asyncio.create_task(activity)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    async def settle(self) -> None:
        """Wait until no activity is left."""
        while pending := [task for task in self._tasks if task is not asyncio.current_task()]:
            await asyncio.wait(pending)

    async def shut_down(self) -> None:
        """Cancel everything, and wait for its end."""
        for task in list(self._tasks):
            task.cancel()
        await self.settle()

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("an activity of the director failed: %s", error, exc_info=error)
