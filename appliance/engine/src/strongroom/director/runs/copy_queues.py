"""Starts the copies of pools with Copy To.

What is to be copied is what the catalog knows to be at the first storage and not at the second, so
a restart or a lost run loses nothing. A run is started where something is to be copied and no run
of that job and storage waits or runs. A failed run is tried again with longer and longer pauses
(`aftermath`). What a run has left, because it was cancelled or could not be read, waits for the
next backup, or an hour.
"""

from __future__ import annotations

import logging
from typing import Any, Final

from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.base.errors import StrongroomError
from strongroom.config.settings.configuration import DirectorConfiguration
from strongroom.config.settings.job import copy_job_of
from strongroom.director.catalog.copies import Backlog, backlogs, newest_copied_ns
from strongroom.director.catalog.database import Catalog
from strongroom.director.catalog.state import read_state, write_state
from strongroom.director.context import DirectorContext
from strongroom.director.results.status import PoolCopies
from strongroom.director.runs.lifecycle import Runs
from strongroom.director.runs.requests import Overrides, new_run

# A copy is late when a snapshot has waited so long for it.
LATE_NS: Final = 2 * 86400 * SECOND_NS
_AGAIN_SECONDS: Final = 3600.0
# Pool -> its second storage, and since when it is that.
_STATE: Final = "copies"
_log = logging.getLogger(__name__)


class CopyQueues:
    """One queue a pool; of the event loop. What is in memory only avoids useless runs."""

    def __init__(self, context: DirectorContext, runs: Runs) -> None:
        self._context = context
        self._runs = runs
        # (Pool, storage) -> the newest snapshot that the last run could copy, and when it began.
        self._tried: dict[tuple[str, str], tuple[int, float]] = {}

    async def look(self) -> None:
        """Note what has no copy, and have it copied. Raises StrongroomError."""
        context = self._context
        found = await context.ask(_read, context.configuration)
        context.copies = tuple(copies for copies, _ in found)
        for copies, waiting in found:
            for backlog in waiting:
                try:
                    await self._start(copies, backlog)
                except StrongroomError as error:
                    # The copies of other pools do not wait for what is wrong with this one.
                    _log.warning(
                        "pool %s is not copied to %s: %s", copies.pool, copies.storage, error
                    )

    async def _start(self, copies: PoolCopies, backlog: Backlog) -> None:
        of = (copies.job, backlog.storage)
        active = (one.record for one in self._runs.active.all())
        if of in {(one.job, one.storage) for one in active}:
            return
        now = clock.elapsed_seconds()
        newest_ns, at = self._tried.get(of, (0, 0.0))
        if backlog.newest_ns <= newest_ns and now - at < _AGAIN_SECONDS:
            return
        self._tried[of] = (backlog.newest_ns, now)
        given = Overrides(storage=backlog.storage)
        by = f"Copy To of pool {copies.pool}"
        await self._runs.submit(
            new_run(self._context.configuration, copies.job, given, requested_by=by)
        )


def _read(
    catalog: Catalog, configuration: DirectorConfiguration
) -> list[tuple[PoolCopies, list[Backlog]]]:
    """What each pool lacks."""
    targets = {
        pool: target.storage
        for pool in configuration.pools
        if (target := configuration.copy_target(pool)) is not None
    }
    seen: dict[str, list[Any]] = read_state(catalog, _STATE) or {}
    now_ns = clock.now_ns()
    # What was there before its Copy To has not waited since it was stored.
    since: dict[str, list[Any]] = {
        pool: seen[pool] if seen.get(pool, [""])[0] == storage else [storage, now_ns]
        for pool, storage in targets.items()
    }
    if since != seen:
        write_state(catalog, _STATE, since)
    found = []
    for pool, storage in targets.items():
        # What is in a storage that left the configuration cannot be copied.
        found_there = backlogs(catalog, pool, storage)
        waiting = [one for one in found_there if one.storage in configuration.storages]
        behind_ns = max(waiting[0].oldest_ns, since[pool][1]) if waiting else 0
        number = sum(one.number for one in waiting)
        copied_ns = newest_copied_ns(catalog, pool, storage)
        copies = PoolCopies(pool, storage, copy_job_of(pool), number, behind_ns, copied_ns)
        found.append((copies, waiting))
    return found
