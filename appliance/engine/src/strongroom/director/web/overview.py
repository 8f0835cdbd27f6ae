"""The first page: what needs somebody, what runs, space, restore tests, certificates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from fastapi import APIRouter
from fastapi.responses import Response

from strongroom.director.http import status as api
from strongroom.director.results.status import Expiry
from strongroom.director.web.clients import VERDICTS, judged_clients, shown_clients
from strongroom.director.web.rendering import page
from strongroom.director.web.sessions import Reader

router = APIRouter()

_MOST_CLIENTS = 25
_MOST_PROBLEMS = 25
_MOST_WARNINGS = 10
_MOST_RUNS = 15
_MOST_EXPIRIES = 8
# Of what ends, so that what ends soon is among it.
_MOST_ENDINGS = 100
_FEW = 3
_MOST_TESTS = 15


@router.get("/")
async def overview(asked: Reader) -> Response:
    """Whatever of it the reader may see."""
    may = asked.rights.permits_command
    queries = asked.director.queries
    status = await api.status(asked, _MOST_ENDINGS) if may("status") else None
    problems = status.problems if status is not None else ()
    warnings = status.warnings if status is not None else ()
    clients = None
    if may("clients"):
        names, starts = api.visible_clients(asked), await queries.good_starts()
        clients = judged_clients(names, starts, problems)
    tests = []
    if may("runs"):
        found = [one for one in await queries.restore_tests() if asked.may_see(one)]
        tests = sorted(found, key=lambda one: (one.state == "done", one.ended_ns))
    capacity = await queries.capacity(asked.rights.permits) if may("status") else []
    counts = Counter(one.verdict for one in clients or ())
    return page(
        asked,
        "overview.html",
        "/",
        status=status,
        warnings=warnings[:_MOST_WARNINGS],
        more_warnings=max(0, len(warnings) - _MOST_WARNINGS),
        problems=problems[:_MOST_PROBLEMS],
        more_problems=max(0, len(problems) - _MOST_PROBLEMS),
        clients=None if clients is None else await shown_clients(asked, clients[:_MOST_CLIENTS]),
        number_of_clients=len(clients or ()),
        counts=[(verdict, counts[verdict]) for verdict in VERDICTS if counts[verdict]],
        active=status.active[:_MOST_RUNS] if status is not None else (),
        tests=tests[:_MOST_TESTS],
        expiries=_soon(status.expiries) if status is not None else (),
        capacity=capacity,
    )


def _soon(expiries: Sequence[Expiry]) -> Sequence[Expiry]:
    """What ends soon; the next few where nothing does."""
    soon = [one for one in expiries if one.is_soon]
    return soon[:_MOST_EXPIRIES] or expiries[:_FEW]
