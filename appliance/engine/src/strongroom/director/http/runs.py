"""Runs: list, start, watch, cancel, and the log of each.

Watching is a stream of server-sent events, which notices when either side ends. The reader's rights
are checked again every RECHECK_SECONDS: a stream ends when its token expires, its certificate is
revoked, or the rights it was opened with are withdrawn.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import Response, StreamingResponse
from pydantic import TypeAdapter

from strongroom.base import clock
from strongroom.base.errors import NotAuthenticatedError, NotPermittedError, StrongroomError
from strongroom.director.http.bodies import (
    Bandwidth,
    Cursor,
    NewEstimate,
    NewRun,
    Page,
    PageSize,
    StreamDenied,
    filtered_page,
)
from strongroom.director.http.request_context import ApiRequest, Asked
from strongroom.director.results.runs import (
    LogLine,
    Run,
    RunEvent,
    RunFilter,
    RunKind,
    RunState,
)
from strongroom.director.runs.requests import Overrides, plan

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
    of_clients, of_jobs = await asked.names_in_sight(asked.director.queries.names_of_runs)

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
    planned = _permitted_plan(asked, wanted.job, Overrides.of(wanted))
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


def _permitted_plan(asked: ApiRequest, name: str, given: Overrides | None = None) -> Run:
    """A planned run; NotPermittedError unless the job and all that it uses are allowed."""
    asked.rights.require("job", name)
    overrides = given or Overrides()
    # Checked before any lookup: names that are not allowed must not be revealed.
    for kind in ("client", "fileset", "storage", "pool"):
        asked.rights.require(kind, getattr(overrides, kind))
    planned = plan(asked.director.configuration, name, overrides)
    what = f"job {name!r}"
    asked.rights.require_used(what, "client", planned.client)
    asked.rights.require_used(what, "fileset", planned.fileset)
    asked.rights.require_used(what, "storage", planned.storage)
    asked.rights.require_used(what, "pool", planned.pool)
    return planned


SIGN_OF_LIFE_SECONDS = 15.0
RECHECK_SECONDS = 2.0

_log = logging.getLogger(__name__)
_EVENT = TypeAdapter(RunEvent)


async def event_stream(
    events: AsyncIterator[RunEvent],
    closing: asyncio.Event,
    still_allowed: Callable[[], Awaitable[None]],
) -> AsyncIterator[str]:
    """The text of the stream; ends with `events`, and early when `closing` is set.

    `still_allowed`: raises NotAuthenticatedError or NotPermittedError when the reader lost its
    rights; the last event, `denied`, says so. Without events a comment every
    SIGN_OF_LIFE_SECONDS keeps proxies from closing the connection.
    """
    stop = asyncio.ensure_future(closing.wait())
    coming: asyncio.Future[RunEvent] | None = None
    sent_seconds = checked_seconds = clock.elapsed_seconds()
    try:
        while not stop.done():
            if coming is None:
                coming = asyncio.ensure_future(anext(events))
            await asyncio.wait(
                (coming, stop), timeout=RECHECK_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
            now_seconds = clock.elapsed_seconds()
            if now_seconds - checked_seconds >= RECHECK_SECONDS:
                await still_allowed()
                checked_seconds = now_seconds
            if coming.done():
                event = coming.result()
                coming = None
                sent_seconds = now_seconds
                yield _written(event)
            elif not stop.done() and now_seconds - sent_seconds >= SIGN_OF_LIFE_SECONDS:
                sent_seconds = now_seconds
                yield ": waiting\n\n"
    except StopAsyncIteration:
        yield "event: end\ndata: {}\n\n"
    except (NotAuthenticatedError, NotPermittedError) as error:
        denied = StreamDenied(type="denied", error_id=error.error_id, message=str(error))
        yield f"event: denied\ndata: {denied.model_dump_json()}\n\n"
    except StrongroomError as error:
        _log.warning("a stream of events ends: %s", error)
    finally:
        stop.cancel()
        if coming is not None:
            coming.cancel()
            await asyncio.wait((coming,))
        if (close := getattr(events, "aclose", None)) is not None:
            await close()


def _written(event: RunEvent) -> str:
    number = f"id: {event.line.sequence}\n" if event.line is not None else ""
    absent = {name for name in ("run", "line") if getattr(event, name) is None}
    data = _EVENT.dump_json(event, by_alias=True, exclude=absent).decode("utf-8")
    return f"event: {event.kind}\n{number}data: {data}\n\n"
