"""On which days a `Run` of a Schedule holds: arithmetic, without a clock or a time zone.

Weeks of the year are those of ISO 8601 (Monday to Sunday, the first has the year's first Thursday;
there is no week 0), the n-th week of a month are its days 7n-6 to 7n, `last` its last seven days,
and `lastday` the last of them.
"""

from __future__ import annotations

import calendar
from datetime import date, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from strongroom.config.values.run_schedule import ScheduleRun

# What never comes within a generation (30 February) is never due.
MOST_DAYS_AHEAD: Final = 366 * 41
_FIRST_DAY: Final = date(2024, 1, 1)


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
