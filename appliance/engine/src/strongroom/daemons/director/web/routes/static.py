"""Static files: styles, scripts, the icon. They tell nothing, so they need no caller."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import Response

from strongroom.daemons.director.web.static_files import static_files
from strongroom.errors import UnknownNameError

router = APIRouter()


@router.get("/static/{name}")
async def static(name: str) -> Response:
    """One file."""
    found = static_files().get(name)
    if found is None:
        raise UnknownNameError(f"there is no file {name!r}")
    keep = {"cache-control": "public, max-age=86400"}
    return Response(found.content, media_type=found.media_type, headers=keep)
