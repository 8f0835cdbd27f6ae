"""Clients: all, the worst first, and one with its jobs, runs and snapshots."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse, Response

from strongroom.daemons.director.api.models.requests import NewRun
from strongroom.daemons.director.api.paging import Cursor
from strongroom.daemons.director.api.routes import runs as runs_api
from strongroom.daemons.director.api.routes import snapshots as snapshots_api
from strongroom.daemons.director.api.routes import status as api
from strongroom.daemons.director.web.fleet import VERDICTS, judged_clients
from strongroom.daemons.director.web.readers import Reader
from strongroom.daemons.director.web.rendering import page

if TYPE_CHECKING:
    from strongroom.daemons.director.api.request_context import ApiRequest
    from strongroom.daemons.director.results.notices import OpenIncident
    from strongroom.daemons.director.results.runs import Run
    from strongroom.daemons.director.results.snapshots import Snapshot

router = APIRouter()

_ON_A_PAGE = 100
_MOST_RUNS = 15

Text = Annotated[str, Query(max_length=128)]


@router.get("/clients")
async def clients(asked: Reader, name: Text = "", state: Text = "", after: Cursor = "") -> Response:
    """Those whose names hold `name`, of one state where it is given."""
    listed = (await api.clients(asked)).items
    problems = await _problems(asked)
    found = [
        one
        for one in judged_clients(listed, problems)
        if name.lower() in one.client.name.lower() and state in ("", one.verdict)
    ]
    first = int(after or 0)
    following = first + _ON_A_PAGE
    return page(
        asked,
        "clients.html",
        "/clients",
        clients=found[first:following],
        number_found=len(found),
        first=first,
        following=following if following < len(found) else None,
        name=name,
        state=state,
        states=VERDICTS,
    )


@router.get("/client")
async def client(asked: Reader, name: Text) -> Response:
    """One client."""
    found = await api.client(name, asked)
    may = asked.rights.permits_command
    jobs = (await api.jobs(asked, client=name)).items if may("jobs") else []
    runs: list[Run] = []
    snapshots: list[Snapshot] = []
    if may("runs"):
        runs = (await runs_api.runs(asked, client=name, limit=_MOST_RUNS)).items
    if may("snapshots"):
        snapshots = (await snapshots_api.snapshots(asked, client=name, limit=_MOST_RUNS)).items
    return page(
        asked,
        "client.html",
        "/clients",
        client=found,
        problems=[one for one in await _problems(asked) if one.client == name],
        jobs=jobs,
        runs=runs,
        snapshots=snapshots,
    )


async def _problems(asked: ApiRequest) -> list[OpenIncident]:
    """What is wrong, as the status of the director tells it to the reader."""
    if not asked.rights.permits_command("status"):
        return []
    return [one for one in await asked.director.queries.problems() if asked.may_know_of(one)]


@router.post("/runs")
async def start_run(wanted: NewRun, asked: Reader) -> Response:
    """Queue a run of a job."""
    run = await runs_api.start_run(wanted, asked)
    return JSONResponse({"go": f"/runs/{run.id}"})
