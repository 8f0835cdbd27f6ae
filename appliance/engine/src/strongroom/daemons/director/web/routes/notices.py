"""Notices: what is wrong, what could not be delivered, and a test of destinations."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response

from strongroom.daemons.director.api.models.requests import TestWanted
from strongroom.daemons.director.api.routes import notices as api
from strongroom.daemons.director.notices.testing import shown_name
from strongroom.daemons.director.runs.targets import NoticeTarget, targets_of
from strongroom.daemons.director.web.readers import Reader
from strongroom.daemons.director.web.rendering import page

router = APIRouter()


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
    return JSONResponse({"message": f"{retried.messages} messages are tried again"})
