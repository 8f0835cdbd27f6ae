"""Runs: list, start, watch, cancel, and the log of each."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import Response, StreamingResponse

from strongroom.daemons.director.api.event_stream import event_stream
from strongroom.daemons.director.api.models.requests import Bandwidth, NewEstimate, NewRun
from strongroom.daemons.director.api.models.responses import Page
from strongroom.daemons.director.api.paging import Cursor, PageSize, filtered_page
from strongroom.daemons.director.api.request_context import ApiRequest, Asked
from strongroom.daemons.director.results.runs import LogLine, Run, RunFilter, RunKind, RunState
from strongroom.daemons.director.runs.plan import JobPlan, Overrides, plan
from strongroom.errors import NotPermittedError

router = APIRouter(tags=["runs"])

Sequence = Annotated[int, Query(ge=0, le=1 << 62, description="Only lines after this number.")]
_EVENTS: dict[int | str, dict[str, object]] = {
    200: {
        "description": "Server-sent events `state`, `progress`, `log` (each a RunEvent), then "
        "`end`, or `denied` (a StreamDenied) when the caller lost its rights. The id of "
        "a log event is its number, so a client that reconnects with Last-Event-ID misses none.",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    }
}


@router.get("/runs")
async def runs(
    asked: Asked,
    job: str = "",
    client: str = "",
    kind: RunKind | None = None,
    state: Annotated[list[RunState] | None, Query()] = None,
    after: Cursor = "",
    limit: PageSize = 100,
) -> Page[Run]:
    """Runs that the caller may see, the newest first."""
    asked.rights.require_command("runs")
    recorded_names = asked.director.queries.names_of_runs
    of_clients = await asked.names_in_sight("client", recorded_names)
    of_jobs = await asked.names_in_sight("job", recorded_names)

    async def read(offset: int, count: int) -> list[Run]:
        return await asked.director.queries.runs(
            RunFilter(
                job=job,
                client=client,
                kind=kind or "",
                states=tuple(state or ()),
                of_clients=of_clients,
                of_jobs=of_jobs,
                limit=count,
                offset=offset,
            )
        )

    found, following = await filtered_page(read, asked.may_see, after, limit)
    return Page(items=found, next=following)


@router.post("/runs", status_code=202)
async def start_run(wanted: NewRun, asked: Asked) -> Run:
    """Queue a run of a job; the caller must be allowed everything that it uses."""
    asked.rights.require_command("run")
    overrides = Overrides(
        level=wanted.level,
        client=wanted.client,
        fileset=wanted.fileset,
        storage=wanted.storage,
        pool=wanted.pool,
        priority=wanted.priority,
    )
    planned = _permitted_plan(asked, wanted.job, overrides)
    return await asked.director.commands.start_run(planned, asked.actor)


@router.post("/estimates", status_code=202)
async def start_estimate(wanted: NewEstimate, asked: Asked) -> Run:
    """Let the agent count what a job would back up; the result is the run's summary."""
    asked.rights.require_command("estimate")
    _permitted_plan(asked, wanted.job)
    return await asked.director.commands.start_estimate(
        wanted.job, asked.actor, listing=wanted.listing
    )


@router.get("/runs/{run_id}")
async def run(run_id: str, asked: Asked) -> Run:
    """One run, by its id or an unambiguous beginning of it."""
    return await asked.permitted_run("runs", run_id)


@router.get("/runs/{run_id}/log")
async def log(
    run_id: str, asked: Asked, after: Sequence = 0, limit: PageSize = 1000
) -> Page[LogLine]:
    """The log of a run, the oldest line first."""
    found = await asked.permitted_run("log", run_id)
    lines = await asked.director.queries.log(found.id, after, limit)
    following = str(lines[-1].sequence) if len(lines) == limit else None
    return Page(items=lines, next=following)


@router.get("/runs/{run_id}/events", response_class=Response, responses=_EVENTS)
async def events(
    run_id: str,
    asked: Asked,
    request: Request,
    after: Sequence = 0,
    last_event_id: Annotated[str, Header(max_length=20)] = "",
) -> StreamingResponse:
    """Events of a run as they happen, until it has ended or may not be seen any more."""
    found = await asked.permitted_run("watch", run_id)

    async def still_allowed() -> None:
        try:
            await (await asked.reidentified()).permitted_run("watch", found.id)
        except NotPermittedError as error:
            target = f"GET {request.url.path}"
            await asked.director.audit_log.record(asked.actor, "denied", target, error.error_id)
            raise

    seen = int(last_event_id) if last_event_id.isascii() and last_event_id.isdigit() else after
    stream = event_stream(
        asked.director.queries.watch(found.id, seen), asked.context.closing, still_allowed
    )
    return StreamingResponse(
        stream, media_type="text/event-stream", headers={"cache-control": "no-store"}
    )


@router.post("/runs/{run_id}/cancel", status_code=202)
async def cancel(run_id: str, asked: Asked) -> Run:
    """End a run."""
    found = await asked.permitted_run("cancel", run_id)
    return await asked.director.commands.cancel(found.id, asked.actor)


@router.post("/runs/{run_id}/accept", status_code=202)
async def accept(run_id: str, asked: Asked) -> Run:
    """Say that a backup that holds far less than usual is right; also those after it."""
    found = await asked.permitted_run("accept", run_id)
    return await asked.director.commands.accept(found.id, asked.actor)


@router.post("/runs/{run_id}/bandwidth", status_code=202)
async def bandwidth(run_id: str, wanted: Bandwidth, asked: Asked) -> Run:
    """Change the bandwidth limit of an active run."""
    asked.rights.require_command("bandwidth")
    found = await asked.permitted_run("bandwidth", run_id)
    limit = wanted.maximum_bytes_per_second
    return await asked.director.commands.set_bandwidth(found.id, limit, asked.actor)


def _permitted_plan(asked: ApiRequest, name: str, said: Overrides | None = None) -> JobPlan:
    """Overrides for a run; NotPermittedError unless the job and all that it uses are allowed."""
    asked.rights.require("job", name)
    overrides = said or Overrides()
    # Checked before any lookup: names that are not allowed must not be revealed.
    for kind in ("client", "fileset", "storage", "pool"):
        asked.rights.require(kind, getattr(overrides, kind))
    planned = plan(asked.director.configuration, name, overrides)
    what = f"job {name!r}"
    asked.rights.require_used(what, "client", planned.client)
    asked.rights.require_used(what, "fileset", planned.fileset)
    asked.rights.require_used(what, "storage", planned.storage)
    asked.rights.require_used(what, "pool", planned.pool(planned.level))
    return planned
