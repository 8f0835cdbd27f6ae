"""Runs: all, one with its log and its progress while it lasts, and what schedules will start."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, get_args

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import JSONResponse, Response

from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.base.errors import UsageError
from strongroom.director.http import runs as api
from strongroom.director.http.bodies import Cursor
from strongroom.director.results.runs import RunKind, RunState
from strongroom.director.schedule.due_times import zone_of
from strongroom.director.web.rendering import page
from strongroom.director.web.sessions import Reader, Text

router = APIRouter()

_ON_A_PAGE = 50
_LINES_ON_A_PAGE = 500

Choice = Annotated[str, Query(max_length=16)]


@router.get("/runs")
async def runs(
    asked: Reader,
    job: Text = "",
    client: Text = "",
    kind: Choice = "",
    state: Choice = "",
    after: Cursor = "",
) -> Response:
    """Those that fit, the newest first."""
    kinds, states = get_args(RunKind), get_args(RunState)
    if kind not in ("", *kinds) or state not in ("", *states):
        raise UsageError("there is no such kind or state of runs")
    found = await api.runs(
        asked,
        job=job,
        client=client,
        kind=kind or None,  # type: ignore[arg-type]
        state=[state] if state else None,  # type: ignore[list-item]
        after=after,
        limit=_ON_A_PAGE,
    )
    return page(
        asked,
        "runs.html",
        "/runs",
        runs=found.items,
        following=found.next,
        wanted={"job": job, "client": client, "kind": kind, "state": state},
        after=after,
        kinds=kinds,
        states=states,
    )


@router.get("/runs/{run_id}")
async def run(
    run_id: str, asked: Reader, after: Annotated[int, Query(ge=0, le=1 << 62)] = 0
) -> Response:
    """One run, and its log after a line."""
    found = await api.run(run_id, asked)
    log = None
    if _may(asked, "log"):
        log = await api.log(found.id, asked, after, _LINES_ON_A_PAGE)
    return page(
        asked,
        "run.html",
        "/runs",
        run=found,
        lines=log.items if log is not None else None,
        following=log.next if log is not None else None,
        after=after,
        # A page that does not show the last lines is not continued.
        is_live=not found.is_final and _may(asked, "watch") and (log is None or not log.next),
        may_cancel=not found.is_final and _may(asked, "cancel"),
    )


def _may(asked: Reader, action: str) -> bool:
    return asked.rights.permits_command(action, or_by="restore")


@router.get("/runs/{run_id}/events")
async def events(
    run_id: str,
    asked: Reader,
    request: Request,
    after: Annotated[int, Query(ge=0, le=1 << 62)] = 0,
    last_event_id: Annotated[str, Header(max_length=20)] = "",
) -> Response:
    """The API's stream, for our script."""
    return await api.events(run_id, asked, request, after, last_event_id)


@router.post("/runs/{run_id}/cancel")
async def cancel(run_id: str, asked: Reader) -> Response:
    """End a run."""
    run = await api.cancel(run_id, asked)
    return JSONResponse({"go": f"/runs/{run.id}"})


_DAYS = 7
_DUE_ON_A_PAGE = 200


@router.get("/schedule")
async def schedule(
    asked: Reader, day: Annotated[int, Query(ge=0, lt=_DAYS)] = 0, after: Cursor = ""
) -> Response:
    """The runs of a day, counted from today, of jobs and clients that the reader may see."""
    asked.rights.require_command("status")
    zone = zone_of(asked.director.configuration)
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
    following = first + _DUE_ON_A_PAGE
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
