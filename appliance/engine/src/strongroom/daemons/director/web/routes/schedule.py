"""What schedules will start within the next seven days, a day at a time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response

from strongroom import clock
from strongroom.clock import SECOND_NS
from strongroom.daemons.director.api.paging import Cursor
from strongroom.daemons.director.web.readers import Reader
from strongroom.daemons.director.web.rendering import page, zone_of

router = APIRouter()

_DAYS = 7
_ON_A_PAGE = 200


@router.get("/schedule")
async def schedule(
    asked: Reader, day: Annotated[int, Query(ge=0, lt=_DAYS)] = 0, after: Cursor = ""
) -> Response:
    """The runs of a day, counted from today, of jobs and clients that the reader may see."""
    asked.rights.require_command("status")
    zone = zone_of(asked)
    today = datetime.fromtimestamp(clock.now_ns() // SECOND_NS, UTC).astimezone(zone).date()
    midnights = [
        int(datetime(one.year, one.month, one.day, tzinfo=zone).timestamp()) * SECOND_NS
        for one in (today + timedelta(days=number) for number in range(_DAYS + 1))
    ]
    coming = [
        one
        for one in await asked.director.queries.coming_runs(midnights[-1] - 1)
        if asked.rights.permits_all(job=one.due.job, client=one.due.client)
    ]
    counts = [0] * _DAYS
    for one in coming:
        for time_ns in one.times_ns:
            counts[_day_of(time_ns, midnights)] += 1
    due = sorted(
        (
            (time_ns, one.due)
            for one in coming
            for time_ns in one.times_ns
            if midnights[day] <= time_ns < midnights[day + 1]
        ),
        key=lambda pair: (pair[0], pair[1].priority, pair[1].job),
    )
    first = int(after or 0)
    following = first + _ON_A_PAGE
    days = [
        (number, f"{today + timedelta(days=number):%A}", f"{today + timedelta(days=number)}", count)
        for number, count in enumerate(counts)
    ]
    return page(
        asked,
        "schedule.html",
        "/schedule",
        days=days,
        day=day,
        due=due[first:following],
        number_due=len(due),
        first=first,
        following=following if following < len(due) else None,
    )


def _day_of(time_ns: int, midnights: list[int]) -> int:
    return sum(time_ns >= one for one in midnights[1:-1])
