"""Notices: what is wrong, what could not be delivered, tests of destinations."""

from __future__ import annotations

from dataclasses import replace

from fastapi import APIRouter

from strongroom.daemons.director.api.models.requests import TestWanted
from strongroom.daemons.director.api.models.responses import Page, Retried
from strongroom.daemons.director.api.request_context import Asked
from strongroom.daemons.director.results.notices import NoticeOverview, NoticeTest

router = APIRouter(tags=["notices"])


@router.get("/notices")
async def notices(asked: Asked) -> NoticeOverview:
    """What is wrong now, of jobs, clients and storages that the caller may see.

    What is of none of them, the number of messages that wait, and those that could not be
    delivered are shown to callers with all rights.
    """
    asked.rights.require_command("notify")
    found = await asked.director.queries.notices()
    if asked.rights.is_unlimited:
        return found
    seen = tuple(one for one in found.incidents if asked.may_know_of(one))
    return replace(found, incidents=seen, waiting=0, dead=())


@router.post("/notices/test")
async def test(wanted: TestWanted, asked: Asked) -> Page[NoticeTest]:
    """Send a test to a destination, or to all, and wait for what its server says."""
    asked.rights.require_command("notify")
    tests = await asked.director.commands.test_notices(wanted.destination, asked.actor)
    return Page(items=tests)


@router.post("/notices/retry")
async def retry(asked: Asked) -> Retried:
    """Try messages that could not be delivered once more."""
    asked.rights.require_command("notify")
    return Retried(messages=await asked.director.commands.retry_notices(asked.actor))
