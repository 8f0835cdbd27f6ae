"""Notifies watchers of runs; each then reads what is new itself.

Events are not queued, so a slow watcher costs nothing and misses no line of a log.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class Watchers:
    """Watchers by run; for one event loop."""

    def __init__(self) -> None:
        self._by_run: dict[str, set[asyncio.Event]] = {}

    @contextmanager
    def watching(self, run_id: str) -> Iterator[asyncio.Event]:
        """An event that is set when the run has changed."""
        event = asyncio.Event()
        self._by_run.setdefault(run_id, set()).add(event)
        try:
            yield event
        finally:
            events = self._by_run[run_id]
            events.discard(event)
            if not events:
                del self._by_run[run_id]

    def wake(self, run_id: str) -> None:
        """The run has changed."""
        for event in self._by_run.get(run_id, ()):
            event.set()
