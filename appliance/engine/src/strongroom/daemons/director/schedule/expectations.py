"""What schedules let expect: which of them start a job, when it was due last, how often it runs."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

from strongroom.clock import SECOND_NS
from strongroom.daemons.director.schedule.due_times import last_due_ns, next_due_ns, time_zone
from strongroom.errors import UsageError

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from strongroom.config.settings.configuration import DirectorConfiguration
    from strongroom.config.settings.job import JobSettings
    from strongroom.config.settings.schedule import ScheduleSettings

_INTERVAL_LOOKS: Final = 10


def schedule_of(configuration: DirectorConfiguration, job: JobSettings) -> ScheduleSettings | None:
    """The schedule that starts a job; None where it or its client or schedule is disabled.

    A restore is never started by one: it needs a snapshot.
    """
    schedule = configuration.schedules.get(job.schedule)
    client = configuration.clients.get(job.client)
    if job.kind == "restore" or not job.enabled or schedule is None or not schedule.enabled:
        return None
    return schedule if client is None or client.enabled else None


def zone_of(configuration: DirectorConfiguration, schedule: ScheduleSettings) -> ZoneInfo:
    """The time zone of a schedule, the system's where it names one that is not there."""
    try:
        return time_zone(schedule.time_zone or configuration.director.time_zone)
    except UsageError:
        return time_zone("")


def longest_gap_seconds(schedule: ScheduleSettings, now_ns: int, zone: ZoneInfo) -> float:
    """The longest time between two of the next due times; 0 where there are no two."""
    moments: set[int] = set()
    for run in schedule.runs:
        due = next_due_ns(run, now_ns, zone)
        for _ in range(_INTERVAL_LOOKS):
            if due is None:
                break
            moments.add(due)
            due = next_due_ns(run, due, zone)
    ordered = sorted(moments)[:_INTERVAL_LOOKS]
    gaps = [after - before for before, after in pairwise(ordered)]
    return max(gaps, default=0) / SECOND_NS


def due_around(
    schedule: ScheduleSettings, after_ns: int, now_ns: int, zone: ZoneInfo
) -> tuple[int, int]:
    """The last due time since then, up to now, and the next; 0 where there is none."""
    last = [last_due_ns(run, after_ns, now_ns, zone) or 0 for run in schedule.runs]
    coming = [next_due_ns(run, now_ns, zone) or 0 for run in schedule.runs]
    return max(last, default=0), min((one for one in coming if one), default=0)
