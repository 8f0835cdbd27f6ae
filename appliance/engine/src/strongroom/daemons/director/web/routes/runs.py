"""Runs: all, and one with its log and its progress while it lasts."""

from __future__ import annotations

from typing import Annotated, get_args

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import JSONResponse, Response

from strongroom.daemons.director.api.paging import Cursor
from strongroom.daemons.director.api.routes import runs as api
from strongroom.daemons.director.results.runs import RunKind, RunState
from strongroom.daemons.director.web.readers import Reader
from strongroom.daemons.director.web.rendering import page
from strongroom.errors import UsageError

router = APIRouter()

_ON_A_PAGE = 50
_LINES_ON_A_PAGE = 500

Text = Annotated[str, Query(max_length=128)]
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
