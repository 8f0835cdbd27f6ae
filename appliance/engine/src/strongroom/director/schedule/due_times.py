"""When the Run entries of a Schedule are due, in a local time zone with daylight saving time.

An entry is due in a local minute that matches all its sets; `config.values.run_days` says on which
days they do.

At clock changes: a due time that is skipped is due at the end of the gap, once, however many
times of the entry fall into it; one that occurs twice is due the first time only. An entry for
every hour is due whenever the local clock shows its minute: never in a gap, and twice where the
hour occurs twice. So a nightly job runs every night, once; an hourly one each hour.

From that follows what a job's schedule lets expect. Everything here is arithmetic without state;
only the system's own time zone is read, and read anew after a change of it.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import fields
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from io import BytesIO
from itertools import pairwise
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from blake3 import blake3

from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.base.errors import UsageError
from strongroom.config.settings.configuration import DirectorConfiguration
from strongroom.config.settings.job import JobSettings
from strongroom.config.settings.schedule import ScheduleSettings
from strongroom.config.values.run_days import MOST_DAYS_AHEAD, holds_on
from strongroom.config.values.run_schedule import ScheduleRun

_INTERVAL_LOOKS: Final = 10
_HOURS_OF_A_DAY: Final = 24
_LOCAL_ZONE_FILE: Final = "/etc/localtime"
# A zone file (RFC 8536, version 1): no transitions, one local time, four characters of names.
_UTC_ZONE: Final = (
    b"TZif" + bytes(16) + struct.pack(">6L", 0, 0, 0, 0, 1, 4) + bytes(6) + b"UTC\0"
)  # fmt: skip


def time_zone(name: str) -> ZoneInfo:
    """The zone of this IANA name, "" for the system's own. Raises UsageError."""
    if not name:
        return _local_zone()
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        advice = "write for example Europe/Vienna"
        if not available_timezones():
            advice = "this machine has no time zones: apt-get install tzdata"
        raise UsageError(f"there is no time zone {name!r}; {advice}") from error


def _local_zone() -> ZoneInfo:
    try:
        there = os.stat(_LOCAL_ZONE_FILE)
        link = os.path.realpath(_LOCAL_ZONE_FILE)
    except OSError:
        return _read_zone("", ())
    return _read_zone(link, (there.st_dev, there.st_ino, there.st_mtime_ns))


@lru_cache(maxsize=1)
def _read_zone(path: str, _version: tuple[int, ...]) -> ZoneInfo:
    """The zone in the file that /etc/localtime leads to; read anew when that is another one."""
    clock.read_time_zone()
    name = path.partition("/zoneinfo/")[2] or "local"
    try:
        with open(path, "rb") as file:
            return ZoneInfo.from_file(file, key=name)
    except (OSError, ValueError):
        # Also without a time zone database: a small host may lack that package.
        return ZoneInfo.from_file(BytesIO(_UTC_ZONE), key="UTC")


def zone_text(zone: ZoneInfo) -> str:
    """`Europe/Vienna (CET)`: the name of a zone, and what its clocks show now."""
    return f"{zone.key} ({datetime.fromtimestamp(clock.now_ns() // SECOND_NS, zone):%Z})"


def entry_digest(entry: ScheduleRun) -> str:
    """A digest, 32 digits, of when an entry is due and what it overrides."""
    parts = [
        f"{field.name}={getattr(entry, field.name)}"
        for field in fields(entry)
        if field.name != "last_day" or entry.last_day  # not in the digests of older catalogs
    ]
    return blake3("\n".join(parts).encode()).hexdigest(16)


def next_due_ns(entry: ScheduleRun, after_ns: int, zone: ZoneInfo) -> int | None:
    """The first due time after a moment, in unix nanoseconds; None: never in 30 years."""
    after = datetime.fromtimestamp(after_ns // SECOND_NS, UTC)
    # A gap of a whole day, as for islands that crossed the date line, ends two days later.
    day = after.astimezone(zone).date() - timedelta(days=2)
    for _ in range(MOST_DAYS_AHEAD):
        if holds_on(entry, day):
            for moment in _due_on(entry, day, zone):
                if moment * SECOND_NS > after_ns:
                    return moment * SECOND_NS
        try:
            day += timedelta(days=1)
        except OverflowError:
            return None
    return None


def due_times_ns(entry: ScheduleRun, after_ns: int, until_ns: int, zone: ZoneInfo) -> Iterator[int]:
    """All due times after one moment, up to and with another."""
    due = next_due_ns(entry, after_ns, zone)
    while due is not None and due <= until_ns:
        yield due
        due = next_due_ns(entry, due, zone)


def last_due_ns(entry: ScheduleRun, after_ns: int, until_ns: int, zone: ZoneInfo) -> int | None:
    """The last due time after one moment, up to and with another; looks back a year at most."""
    until = datetime.fromtimestamp(until_ns // SECOND_NS, UTC).astimezone(zone).date()
    for days in range(-1, 368):
        day = until - timedelta(days=days)
        if not holds_on(entry, day):
            continue
        moments = [moment * SECOND_NS for moment in _due_on(entry, day, zone)]
        within = [moment for moment in moments if after_ns < moment <= until_ns]
        if within:
            return within[-1]
    return None


def _due_on(entry: ScheduleRun, day: date, zone: ZoneInfo) -> list[int]:
    """Unix seconds of the due times whose local date is `day`, in order."""
    is_hourly = len(entry.hours) == _HOURS_OF_A_DAY
    found: set[int] = set()
    for hour in entry.hours:
        local = datetime(day.year, day.month, day.day, hour, entry.minute, tzinfo=zone)
        first = int(local.timestamp())
        second = int(local.replace(fold=1).timestamp())
        if second < first:
            # It does not exist: read with the offset before the gap it lies after it, and the
            # other way round, so the gap ends in between.
            if not is_hourly:
                found.add(_gap_end(second, first, zone))
            continue
        found.add(first)
        if is_hourly:
            found.add(second)
    return sorted(found)


def _gap_end(low: int, high: int, zone: ZoneInfo) -> int:
    """The second of the one change of offset after `low`, up to `high`."""
    before = _offset(low, zone)
    while high - low > 1:
        middle = (low + high) // 2
        if _offset(middle, zone) == before:
            low = middle
        else:
            high = middle
    return high


def _offset(moment: int, zone: ZoneInfo) -> timedelta | None:
    return datetime.fromtimestamp(moment, zone).utcoffset()


def schedule_of(configuration: DirectorConfiguration, job: JobSettings) -> ScheduleSettings | None:
    """The schedule that starts a job; None where it or its client or schedule is disabled.

    A restore is never started by one: it needs a snapshot.
    """
    schedule = configuration.schedules.get(job.schedule)
    client = configuration.clients.get(job.client)
    if job.kind == "restore" or not job.enabled or schedule is None or not schedule.enabled:
        return None
    return schedule if client is None or client.enabled else None


def zone_of(
    configuration: DirectorConfiguration, schedule: ScheduleSettings | None = None
) -> ZoneInfo:
    """The zone of a schedule, else of the director; the system's for one that is not there."""
    own = schedule.time_zone if schedule else ""
    try:
        return time_zone(own or configuration.director.time_zone)
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
