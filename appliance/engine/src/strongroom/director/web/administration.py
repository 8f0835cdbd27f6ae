"""The configuration in force, read-only; notices, with a test of destinations; the audit log."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse, Response

from strongroom.base.errors import UnknownNameError
from strongroom.base.quantities import counted
from strongroom.director.http import administration as api
from strongroom.director.http.bodies import Cursor, TestWanted
from strongroom.director.http.status import visible_resources, visible_values
from strongroom.director.notices.delivery import shown_name
from strongroom.director.notices.targets import targets_of
from strongroom.director.web.rendering import page
from strongroom.director.web.sessions import Reader, Text
from strongroom.service.notices.targets import NoticeTarget

router = APIRouter()

_RESOURCES_ON_A_PAGE = 200


@router.get("/configuration")
async def configuration(
    asked: Reader, kind: Text = "", name: Text = "", after: Annotated[int, Query(ge=0)] = 0
) -> Response:
    """The resources that the reader may see, by type and name."""
    asked.rights.require_command("config")
    seen = visible_resources(asked.director.resources, asked.rights)
    found = [one for one in seen if kind in ("", one.type) and name.lower() in one.name.lower()]
    following = after + _RESOURCES_ON_A_PAGE
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


@router.get("/notices")
async def notices(asked: Reader) -> Response:
    """Of what the reader may see."""
    found = await api.notices(asked)
    destinations: list[str] = []
    if asked.rights.is_unlimited:
        targets = targets_of(asked.director.configuration).values()
        destinations = sorted({shown_name(one) for one in targets if isinstance(one, NoticeTarget)})
    return page(asked, "notices.html", "/notices", found=found, destinations=destinations)


@router.post("/notices/test")
async def test(wanted: TestWanted, asked: Reader) -> Response:
    """Send a test, and tell what the servers say."""
    tests = (await api.test(wanted, asked)).items
    lines = [f"{one.destination}: {one.error or 'its server took the test'}" for one in tests]
    return JSONResponse({"message": "\n".join(lines)})


@router.post("/notices/retry")
async def retry(asked: Reader) -> Response:
    """Try what could not be delivered once more."""
    retried = await api.retry(asked)
    return JSONResponse({"message": f"{counted(retried.messages, 'message')} queued again"})


_ENTRIES_ON_A_PAGE = 100


@router.get("/audit")
async def audit(asked: Reader, who: Text = "", after: Cursor = "") -> Response:
    """Changes and denials that the reader may see, the newest first."""
    found = await api.audit(asked, who, after, _ENTRIES_ON_A_PAGE)
    return page(
        asked,
        "audit.html",
        "/audit",
        entries=found.items,
        following=found.next,
        who=who,
        after=after,
    )
