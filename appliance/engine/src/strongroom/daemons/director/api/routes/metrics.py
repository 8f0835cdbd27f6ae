"""Metrics for Prometheus, in its text format, version 0.0.4.

Names and meanings are the service's (`strongroom_*`, base units, unix times); the API adds its own.
A caller needs the command `metrics` or `status`, and gets the samples of the jobs, clients and
storages that it may see; Prometheus sends a bearer token.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING

from fastapi import APIRouter
from fastapi.responses import PlainTextResponse, Response

from strongroom.daemons.director.api.request_context import Asked
from strongroom.daemons.director.expiries import EXPIRY_METRIC
from strongroom.daemons.exposition import Metric, exposition

if TYPE_CHECKING:
    from strongroom.daemons.director.api.request_context import ApiContext

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

router = APIRouter(tags=["metrics"])

_TEXT: dict[int | str, dict[str, object]] = {
    200: {"description": "The figures", "content": {"text/plain": {"schema": {"type": "string"}}}}
}


@router.get("/metrics", response_class=Response, responses=_TEXT)
async def metrics(asked: Asked) -> PlainTextResponse:
    """Metrics of the jobs, clients and storages that the caller may see, now."""
    asked.rights.require_command("metrics")
    found = await asked.director.queries.metrics(cache(asked.rights.permits))
    found = [*map(partial(_known, asked), found), *_own(asked.context)]
    return PlainTextResponse(exposition(found), media_type=CONTENT_TYPE)


def _known(asked: Asked, metric: Metric) -> Metric:
    """A metric without the credentials of others, which not everybody may know of."""
    if metric.name != EXPIRY_METRIC:
        return metric
    samples = tuple(
        (labels, value)
        for labels, value in metric.samples
        if asked.may_know_of_credential(labels["kind"], labels["name"])
    )
    return replace(metric, samples=samples)


def _own(context: ApiContext) -> list[Metric]:
    values = {
        "agent_connections": len(context.agents),
        "handshakes": context.limits.handshakes.count,
        "refused_handshakes_total": context.limits.refused_handshakes,
    }
    return [
        Metric(f"strongroom_director_{name}", (({}, float(value)),))
        for name, value in values.items()
    ]
