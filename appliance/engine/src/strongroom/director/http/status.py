"""The director itself: status, clients, jobs, configuration, metrics, the caller's identity.

The configuration is shown as explicit directives, without secrets. Metrics are in the text format
of Prometheus, version 0.0.4; their names and meanings are the service's (`strongroom_*`, base
units, unix times), and the API adds its own. A caller needs the command `metrics` or `status`, and
gets the samples of the jobs, clients and storages that it may see.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Header
from fastapi.responses import Response

from strongroom.base.errors import UnknownNameError
from strongroom.config.model import ComponentConfiguration, Resource
from strongroom.config.reports.effective import EffectiveValue, effective_values
from strongroom.config.settings.permissions import PermissionKind
from strongroom.director.http.bodies import Listed, Me, NameCursor, Page, page_of
from strongroom.director.http.request_context import ApiContext, ApiRequest, Asked
from strongroom.director.http.rights import COMMANDS, CallerRights
from strongroom.director.metrics import JUDGED_LABELS
from strongroom.director.results.status import Client, Job, Status
from strongroom.service.exposition import Metric, gzip_of, metric

router = APIRouter(tags=["look"])


@router.get("/me")
async def me(asked: Asked) -> Me:
    """The identity of the caller, and what it may do."""
    actions = [action for action in COMMANDS if asked.rights.permits_command(action)]
    return Me(name=asked.caller.name, role=asked.actor.role, actions=actions)


@router.get("/status")
async def status(asked: Asked, limit: Listed = None) -> Status:
    """Status of the director: active runs, recent ones, and those due within a day.

    Everything, counts and warnings too, is about what the caller may see. limit: of the runs that
    are due, and of what ends.
    """
    asked.rights.require_command("status")
    found = await asked.director.queries.status(
        asked.rights.permits, asked.may_know_of_credential, limit
    )
    return replace(
        found,
        active=tuple(run for run in found.active if asked.may_see(run)),
        recent=tuple(run for run in found.recent if asked.may_see(run)),
        problems=tuple(one for one in found.problems if asked.may_know_of(one)),
    )


@router.get("/clients")
async def clients(asked: Asked, after: NameCursor = "", limit: Listed = None) -> Page[Client]:
    """The clients that the caller may see, by name; all of them without a limit."""
    asked.rights.require_command("clients")
    names, following = page_of(visible_clients(asked), after, limit)
    return Page(items=await asked.director.queries.clients(names), next=following)


def visible_clients(asked: ApiRequest) -> list[str]:
    """The names of the clients that the caller may see, in order."""
    names = asked.director.configuration.clients
    return sorted(name for name in names if asked.rights.permits("client", name))


@router.get("/clients/{name}")
async def client(name: str, asked: Asked) -> Client:
    """One client."""
    asked.rights.require_command("clients")
    asked.rights.require("client", name)
    return await asked.director.queries.client(name)


@router.get("/jobs")
async def jobs(
    asked: Asked, client: str = "", after: NameCursor = "", limit: Listed = None
) -> Page[Job]:
    """Jobs that the caller may see, by name, with their last run and when they are due.

    client: of this one only. All of them without a limit. `last_run` is null also where it was one
    of another client.
    """
    asked.rights.require_command("jobs")
    visible = sorted(
        job.name
        for job in asked.director.configuration.jobs.values()
        if client in ("", job.client) and asked.rights.permits_all(job=job.name, client=job.client)
    )
    names, following = page_of(visible, after, limit)
    items = [
        replace(one, last_run=None)
        if one.last_run is not None and not asked.may_see(one.last_run)
        else one
        for one in await asked.director.queries.jobs(names)
    ]
    return Page(items=items, next=following)


@router.get("/config")
async def configuration(asked: Asked) -> Page[dict[str, Any]]:
    """The resources in force with their directives; secrets are left out.

    Resources of kinds that no permission names (Console, Catalog and so on) are shown only to
    callers with all rights, a Job only with its Client; references to what the caller may not see
    are left out.
    """
    asked.rights.require_command("config")
    resources = visible_resources(asked.director.resources, asked.rights)
    return Page(items=[resource_object(one, asked.rights) for one in resources])


@router.get("/config/{kind}/{name}")
async def configured(kind: str, name: str, asked: Asked) -> dict[str, Any]:
    """One resource, `kind` in any case: `job`, `FileSet`."""
    asked.rights.require_command("config")
    for resource in visible_resources(asked.director.resources, asked.rights):
        if resource.type.lower() == kind.lower() and resource.name == name:
            return resource_object(resource, asked.rights)
    raise UnknownNameError(f"there is no {kind} {name!r} that you may see")


CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

metrics_router = APIRouter(tags=["metrics"])

_TEXT: dict[int | str, dict[str, object]] = {
    200: {"description": "The figures", "content": {"text/plain": {"schema": {"type": "string"}}}}
}


@metrics_router.get("/metrics", response_class=Response, responses=_TEXT)
async def metrics(
    asked: Asked, accept_encoding: Annotated[str, Header(include_in_schema=False)] = ""
) -> Response:
    """Metrics of the jobs, clients and storages that the caller may see, now."""
    asked.rights.require_command("metrics")
    sees_all = all(asked.rights.permits_every(kind) for kind in JUDGED_LABELS.values())
    pieces = await asked.director.queries.exposition(
        asked.rights.permits, sees_all, asked.may_know_of_credential, _own_metrics(asked.context)
    )
    headers = {"vary": "accept-encoding"}
    if _takes_gzip(accept_encoding):
        content = await asyncio.to_thread(gzip_of, pieces)
        headers["content-encoding"] = "gzip"
    else:
        # It may be of 25 MB: one copy.
        content = b"".join([one.text for one in pieces])
    return Response(content, headers=headers, media_type=CONTENT_TYPE)


def _takes_gzip(accept_encoding: str) -> bool:
    """Whether a client's Accept-Encoding names gzip, and not that it is none."""
    for one in accept_encoding.lower().split(","):
        name, _, weight = one.replace(" ", "").partition(";")
        if name == "gzip":
            return not re.fullmatch(r"q=0(\.0*)?", weight)
    return False


def _own_metrics(context: ApiContext) -> list[Metric]:
    values = {
        "agent_connections": len(context.agents),
        "handshakes": context.limits.handshakes.count,
        "refused_handshakes_total": context.limits.refused_handshakes,
    }
    return [metric(f"director_{name}", value) for name, value in values.items()]


# Types of resources that permissions can name.
_JUDGED: dict[str, PermissionKind] = {
    "Job": "job",
    "Client": "client",
    "Storage": "storage",
    "Schedule": "schedule",
    "Pool": "pool",
    "FileSet": "fileset",
}


def visible_resources(
    configuration: ComponentConfiguration, rights: CallerRights
) -> list[Resource]:
    """The resources that a caller may see, by type and in reading order."""
    sees_all = rights.is_unlimited
    return [
        resource
        for resource in configuration.resources
        if sees_all
        or (
            resource.type in _JUDGED
            and rights.permits(_JUDGED[resource.type], resource.name)
            and (resource.type != "Job" or rights.permits("client", resource.name_of("client")))
        )
    ]


def visible_values(
    resource: Resource, rights: CallerRights, *, defaults: bool = False
) -> list[EffectiveValue]:
    """The values of a resource without references to what a caller may not see.

    defaults: also those that no one has set.
    """
    hidden = set() if rights.is_unlimited else set(_hidden(resource, rights))
    values = effective_values(resource, defaults=defaults)
    return [value for value in values if value.name not in hidden]


def resource_object(resource: Resource, rights: CallerRights) -> dict[str, Any]:
    """A resource as plain data, without references to what a caller may not see."""
    return {
        "type": resource.type,
        "name": resource.name,
        "directives": {
            value.name: {"value": value.data, "origin": str(value.origin)}
            for value in visible_values(resource, rights)
        },
    }


def _hidden(resource: Resource, rights: CallerRights) -> Iterator[str]:
    """The directives that name a resource that is not permitted."""
    for spec in resource.spec.directives:
        value = resource.value(spec.attribute)
        for one in value if isinstance(value, tuple) else (value,):
            if isinstance(one, Resource):
                kind = _JUDGED.get(one.type)
                if kind is not None and not rights.permits(kind, one.name):
                    yield spec.shown_name
    # Values that are texts which name resources, and what a Run is to use.
    if resource.type == "Job":
        yield "Run"
    elif resource.type == "Pool":
        yield "Copy To"
