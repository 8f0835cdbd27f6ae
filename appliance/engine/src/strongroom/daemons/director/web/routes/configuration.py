"""The configuration in force, read-only: each value, and where it comes from."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response

from strongroom.daemons.director.api.configuration_view import visible_resources, visible_values
from strongroom.daemons.director.web.readers import Reader
from strongroom.daemons.director.web.rendering import page
from strongroom.errors import UnknownNameError

router = APIRouter()

_ON_A_PAGE = 200

Text = Annotated[str, Query(max_length=128)]


@router.get("/configuration")
async def configuration(
    asked: Reader, kind: Text = "", name: Text = "", after: Annotated[int, Query(ge=0)] = 0
) -> Response:
    """The resources that the reader may see, by type and name."""
    asked.rights.require_command("config")
    seen = visible_resources(asked.director.resources, asked.rights)
    found = [one for one in seen if kind in ("", one.type) and name.lower() in one.name.lower()]
    following = after + _ON_A_PAGE
    return page(
        asked,
        "configuration.html",
        "/configuration",
        resources=found[after:following],
        number_found=len(found),
        first=after,
        following=following if following < len(found) else None,
        kinds=sorted({one.type for one in seen}),
        kind=kind,
        name=name,
        restart_needed=asked.director.context.restart_needed if asked.rights.is_unlimited else (),
    )


@router.get("/resource")
async def resource(asked: Reader, kind: Text, name: Text) -> Response:
    """One resource with all its values, defaults included; secrets are left out."""
    asked.rights.require_command("config")
    for one in visible_resources(asked.director.resources, asked.rights):
        if one.type == kind and one.name == name:
            values = visible_values(one, asked.rights, defaults=True)
            return page(asked, "resource.html", "/configuration", resource=one, values=values)
    raise UnknownNameError(f"there is no {kind} {name!r} that you may see")
