"""When a `Run` holds: on which days, and as systemd writes it; without a clock or a time zone.

Weeks of the year are those of ISO 8601 (Monday to Sunday, the first has the year's first Thursday;
there is no week 0), the n-th week of a month are its days 7n-6 to 7n, `last` its last seven days,
and `lastday` the last of them.
"""

from __future__ import annotations

import calendar
from datetime import date, timedelta
from functools import lru_cache
from typing import Final

from strongroom.base.errors import UsageError
from strongroom.config.values.run_schedule import OVERRIDES, ScheduleRun

# What never comes within a generation (30 February) is never due.
MOST_DAYS_AHEAD: Final = 366 * 41
_FIRST_DAY: Final = date(2024, 1, 1)
_WEEKDAYS = ("Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat")
_WEEK_DAYS = 7
_ALL_DAYS = tuple(range(1, 32))
_ALL_WEEKS = tuple(range(1, 6))


def holds_on(run: ScheduleRun, day: date) -> bool:
    """Whether all sets of a Run but its hours hold on a day."""
    length = calendar.monthrange(day.year, day.month)[1]
    is_named = day.day in run.days or (run.last_day and day.day == length)
    if day.month not in run.months or not is_named:
        return False
    if day.isoweekday() % 7 not in run.weekdays:
        return False
    week_of_month = (day.day + 6) // 7
    if week_of_month not in run.weeks_of_month and not (run.last_week and day.day > length - 7):
        return False
    return day.isocalendar().week in run.weeks_of_year


@lru_cache(maxsize=2048)
def is_ever_due(run: ScheduleRun) -> bool:
    """Whether there is a day on which a Run holds."""
    return any(holds_on(run, _FIRST_DAY + timedelta(days)) for days in range(MOST_DAYS_AHEAD))


def calendar_events(run: ScheduleRun) -> tuple[str, ...]:
    """`run` as calendar events of a systemd timer (systemd.time(7)), in local time.

    Raises UsageError for what a timer cannot say, and for what the backup of one machine has not.
    """
    for override in OVERRIDES.values():
        if getattr(run, override.attribute) is not None:
            shown = override.attribute.removesuffix("_seconds").replace("_", " ").title()
            raise UsageError(f"Run of a Machine says only when, not {shown}")
    if run.weeks_of_year != tuple(range(54)):
        raise UsageError(
            "a systemd timer does not support weeks of the year; use weeks of the month"
        )
    if run.last_week and run.days != _ALL_DAYS:
        raise UsageError("a systemd timer does not support days of the month within its last week")
    if run.last_day and run.weeks_of_month != _ALL_WEEKS:
        raise UsageError(
            "a systemd timer does not support the last day of the month in some weeks only"
        )
    weekdays = "" if len(run.weekdays) == _WEEK_DAYS else _names(run.weekdays) + " "
    months = _numbers(run.months, 12)
    time = f"{_numbers(run.hours, 24)}:{run.minute:02}:00"
    days = tuple(day for day in run.days if (day - 1) // _WEEK_DAYS + 1 in run.weeks_of_month)
    found = []
    if days:
        found.append(f"{weekdays}*-{months}-{_numbers(days, 31)} {time}")
    if run.last_day:
        found.append(f"{weekdays}*-{months}~01 {time}")
    if run.last_week:
        found.append(f"{weekdays}*-{months}~{_numbers(tuple(range(1, _WEEK_DAYS + 1)), 0)} {time}")
    if not found:
        raise UsageError("Run names a day that is in none of its weeks")
    return tuple(found)


def _names(weekdays: tuple[int, ...]) -> str:
    return ",".join(_WEEKDAYS[day] for day in weekdays)


def _numbers(numbers: tuple[int, ...], whole: int) -> str:
    return "*" if len(numbers) == whole else ",".join(f"{number:02}" for number in numbers)
