"""The audit log."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response

from strongroom.daemons.director.api.paging import Cursor
from strongroom.daemons.director.api.routes import admin as api
from strongroom.daemons.director.web.readers import Reader
from strongroom.daemons.director.web.rendering import page

router = APIRouter()

_ON_A_PAGE = 100


@router.get("/audit")
async def audit(
    asked: Reader, who: Annotated[str, Query(max_length=128)] = "", after: Cursor = ""
) -> Response:
    """Changes and denials that the reader may see, the newest first."""
    found = await api.audit(asked, who, after, _ON_A_PAGE)
    return page(
        asked,
        "audit.html",
        "/audit",
        entries=found.items,
        following=found.next,
        who=who,
        after=after,
    )
