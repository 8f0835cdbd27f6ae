"""Time limits of runs, and how a run ends that exceeds one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strongroom import clock
from strongroom.daemons.director.runs.active_run import Ending
from strongroom.daemons.director.runs.run_request import RunRequest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strongroom.config.settings.job import JobSettings
    from strongroom.daemons.director.catalog.runs import RunRecord
    from strongroom.daemons.director.runs.active_run import ActiveRun

# How long a run continues without a connection to its agent; Max Wait Time of the job wins.
LOST_SECONDS: Final = 6 * 3600
# How long a run without a limit of its own may make no progress; Max Wait Time of the job wins. The
# longest that is known without any is a script that dumps a large database.
STALLED_SECONDS: Final = 24 * 3600
LOST_ID: Final = "agent-lost"


def limit(active: ActiveRun, job: JobSettings | None, longest_seconds: int) -> None:
    """Set when a run is ended at the latest; its level may have changed.

    longest_seconds: of any run, 0 for no limit.
    """
    limits = [
        job.longest_run_seconds(active.record.level) if job is not None else 0,
        longest_seconds,
    ]
    shortest = min((one for one in limits if one), default=0)
    active.ends_at = active.begun_at + shortest if shortest else None


def overdue(active: ActiveRun, job: JobSettings | None, now: float) -> Ending | None:
    """How it must end because of a time limit; None as long as it may continue."""
    if not active.is_running:
        if active.deadline is not None and now >= active.deadline:
            return Ending("cancelled", "it could not start in time", "time-limit")
        return None
    if active.deadline is not None and now >= active.deadline and _bounds_end(active.record):
        return Ending("failed", "Max Run Sched Time is over", "time-limit")
    if active.ends_at is not None and now >= active.ends_at:
        return Ending("failed", "it exceeded its time limit", "time-limit")
    patience = job.max_wait_time_seconds if job is not None else 0
    if active.lost_at is not None:
        if now - active.lost_at >= (patience or LOST_SECONDS):
            reason = f"agent {active.record.client} has not been back for too long"
            return Ending("failed", reason, LOST_ID)
    else:
        longest_idle = patience or (0 if active.ends_at else STALLED_SECONDS)
        if longest_idle and active.idle_seconds(now) >= longest_idle:
            reason = f"it made no progress within Max Wait Time, {longest_idle / 3600:.3g} h"
            return Ending("failed", reason, "time-limit")
    return None


def next_moment(runs: Iterable[ActiveRun]) -> float | None:
    """When the limits must be checked again at the latest, by clock.elapsed_seconds."""
    moments: list[float] = []
    for active in runs:
        if active.is_running:
            moments += [one for one in (active.ends_at, active.deadline) if one is not None]
            if active.ending is not None:
                moments.append(active.stop_at)
        else:
            moments.append(active.begins_at)
            if active.deadline is not None:
                moments.append(active.deadline)
    now = clock.elapsed_seconds()
    return min((one for one in moments if one > now), default=None)


def _bounds_end(record: RunRecord) -> bool:
    """Whether the deadline is for its end; that for a late start ends when it runs."""
    return RunRequest.of(record).deadline_bounds_end
