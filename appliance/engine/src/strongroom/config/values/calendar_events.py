"""`Run =` as the calendar events of a systemd timer (systemd.time(7))."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strongroom.errors import UsageError

if TYPE_CHECKING:
    from strongroom.config.values.run_schedule import ScheduleRun

_WEEKDAYS = ("Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat")
_OVERRIDES = (
    "level",
    "pool",
    "full_pool",
    "incremental_pool",
    "differential_pool",
    "next_pool",
    "storage",
    "messages",
    "priority",
    "spool_data",
    "accurate",
    "max_run_sched_time_seconds",
)
_WEEK_DAYS = 7
_ALL_DAYS = tuple(range(1, 32))
_ALL_WEEKS = tuple(range(1, 6))


def calendar_events(run: ScheduleRun) -> tuple[str, ...]:
    """The events at which `run` is due, in local time.

    Raises UsageError for what a timer cannot say, and for what the backup of one machine has not.
    """
    for name in _OVERRIDES:
        if getattr(run, name) is not None:
            shown = name.removesuffix("_seconds").replace("_", " ").title()
            raise UsageError(f"Run of a Machine says only when, not {shown}")
    if run.weeks_of_year != tuple(range(54)):
        raise UsageError("a systemd timer cannot say weeks of the year; use weeks of the month")
    if run.last_week and run.days != _ALL_DAYS:
        raise UsageError("a systemd timer cannot say days of the month within its last week")
    if run.last_day and run.weeks_of_month != _ALL_WEEKS:
        raise UsageError("a systemd timer cannot say the last day of the month in some weeks only")
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
