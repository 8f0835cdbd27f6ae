"""The director itself: status, clients, jobs, configuration, the caller's identity."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fastapi import APIRouter

from strongroom.daemons.director.api.configuration_view import resource_object, visible_resources
from strongroom.daemons.director.api.models.responses import Me, Page
from strongroom.daemons.director.api.request_context import Asked
from strongroom.daemons.director.api.rights import COMMANDS
from strongroom.daemons.director.results.resources import Client, Job
from strongroom.daemons.director.results.status import Status
from strongroom.errors import UnknownNameError

router = APIRouter(tags=["look"])


@router.get("/me")
async def me(asked: Asked) -> Me:
    """The identity of the caller, and what it may do."""
    actions = [action for action in COMMANDS if asked.rights.permits_command(action)]
    return Me(name=asked.caller.name, role=asked.actor.role, actions=actions)


@router.get("/status")
async def status(asked: Asked) -> Status:
    """Status of the director: active runs, recent ones, and those due within a day.

    Everything, counts and warnings too, is about what the caller may see.
    """
    asked.rights.require_command("status")
    found = await asked.director.queries.status(asked.rights.permits)
    return replace(
        found,
        active=tuple(run for run in found.active if asked.may_see(run)),
        recent=tuple(run for run in found.recent if asked.may_see(run)),
        due=tuple(
            due for due in found.due if asked.rights.permits_all(job=due.job, client=due.client)
        ),
        expiries=tuple(
            one for one in found.expiries if asked.may_know_of_credential(one.kind, one.name)
        ),
        problems=tuple(one for one in found.problems if asked.may_know_of(one)),
    )


@router.get("/clients")
async def clients(asked: Asked) -> Page[Client]:
    """All clients that the caller may see, by name."""
    asked.rights.require_command("clients")
    found = await asked.director.queries.clients()
    return Page(items=[one for one in found if asked.rights.permits("client", one.name)])


@router.get("/clients/{name}")
async def client(name: str, asked: Asked) -> Client:
    """One client."""
    asked.rights.require_command("clients")
    asked.rights.require("client", name)
    return await asked.director.queries.client(name)


@router.get("/jobs")
async def jobs(asked: Asked, client: str = "") -> Page[Job]:
    """Jobs that the caller may see, by name, with their last run and when they are due.

    client: of this one only. `last_run` is null also where it was one of another client.
    """
    asked.rights.require_command("jobs")
    found = await asked.director.queries.jobs(client)
    return Page(
        items=[
            replace(one, last_run=None)
            if one.last_run is not None and not asked.may_see(one.last_run)
            else one
            for one in found
            if asked.rights.permits_all(job=one.name, client=one.client)
        ]
    )


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
