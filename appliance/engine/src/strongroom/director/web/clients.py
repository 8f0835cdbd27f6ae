"""Clients: all, those that need somebody first, and one with its jobs, runs and snapshots.

First are those with something wrong, then those without a backup. What is wrong is what notices
say; nothing is judged a second time here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response

from strongroom.director.http import runs as runs_api
from strongroom.director.http import snapshots as snapshots_api
from strongroom.director.http import status as api
from strongroom.director.http.bodies import Cursor, NewRun
from strongroom.director.http.request_context import ApiRequest
from strongroom.director.results.runs import Run
from strongroom.director.results.snapshots import Snapshot
from strongroom.director.results.status import Client, OpenIncident
from strongroom.director.web.rendering import page
from strongroom.director.web.sessions import Reader, Text

_VERDICTS: Final = {
    "job-failed": "failed",
    "restore-test-failed": "failed",
    "job-missing": "late",
    "job-overdue": "late",
    "job-late": "late",
    "restore-test-overdue": "late",
    "job-incomplete": "incomplete",
}
VERDICTS: Final = ("failed", "late", "incomplete", "warning", "new", "ok")


_OK: Final = VERDICTS.index("ok")


class JudgedClient(NamedTuple):
    """A client in a listing. worst: the number of its verdict in VERDICTS (new: no backup yet).

    client: with the state of its agent, where it is shown.
    """

    worst: int
    last_ns: int
    name: str
    problems: tuple[OpenIncident, ...]
    client: Client | None = None

    @property
    def verdict(self) -> str:
        """One of VERDICTS."""
        return VERDICTS[self.worst]


def judged_clients(
    names: Iterable[str], good_starts: Mapping[str, int], problems: Iterable[OpenIncident]
) -> list[JudgedClient]:
    """The clients in the order of VERDICTS, within one the oldest backup first."""
    wrong: dict[str, list[OpenIncident]] = {}
    for one in problems:
        wrong.setdefault(one.client, []).append(one)
    found = [_judged(name, good_starts.get(name, 0), tuple(wrong.get(name, ()))) for name in names]
    found.sort()
    return found


def _judged(name: str, last_ns: int, problems: tuple[OpenIncident, ...]) -> JudgedClient:
    verdicts = {_VERDICTS.get(one.event, "warning") for one in problems}
    if not last_ns:
        verdicts.add("new")
    worst = min(map(VERDICTS.index, verdicts), default=_OK)
    return JudgedClient(worst, last_ns, name, problems)


async def shown_clients(asked: ApiRequest, judged: Sequence[JudgedClient]) -> list[JudgedClient]:
    """The same with the state of their agents: for those that are shown."""
    found = {
        one.name: one for one in await asked.director.queries.clients([one.name for one in judged])
    }
    return [one._replace(client=found[one.name]) for one in judged if one.name in found]


router = APIRouter()

_ON_A_PAGE = 100
_MOST_RUNS = 15


@router.get("/clients")
async def clients(asked: Reader, name: Text = "", state: Text = "", after: Cursor = "") -> Response:
    """Those whose names hold `name`, of one state where it is given."""
    asked.rights.require_command("clients")
    names = [one for one in api.visible_clients(asked) if name.lower() in one.lower()]
    problems = await _problems(asked)
    judged = judged_clients(names, await asked.director.queries.good_starts(), problems)
    found = [one for one in judged if state in ("", one.verdict)]
    first = int(after or 0)
    following = first + _ON_A_PAGE
    return page(
        asked,
        "clients.html",
        "/clients",
        clients=await shown_clients(asked, found[first:following]),
        number_found=len(found),
        first=first,
        following=following if following < len(found) else None,
        name=name,
        state=state,
        states=VERDICTS,
    )


@router.get("/client")
async def client(asked: Reader, name: Text) -> Response:
    """One client."""
    found = await api.client(name, asked)
    may = asked.rights.permits_command
    jobs = (await api.jobs(asked, client=name)).items if may("jobs") else []
    runs: list[Run] = []
    snapshots: list[Snapshot] = []
    if may("runs"):
        runs = (await runs_api.runs(asked, client=name, limit=_MOST_RUNS)).items
    if may("snapshots"):
        wanted = snapshots_api.SnapshotsWanted(client=name)
        snapshots = (await snapshots_api.snapshots(asked, wanted, limit=_MOST_RUNS)).items
    return page(
        asked,
        "client.html",
        "/clients",
        client=found,
        problems=[one for one in await _problems(asked) if one.client == name],
        jobs=jobs,
        runs=runs,
        snapshots=snapshots,
    )


async def _problems(asked: ApiRequest) -> list[OpenIncident]:
    """What is wrong, as the status of the director tells it to the reader."""
    if not asked.rights.permits_command("status"):
        return []
    return [one for one in await asked.director.queries.problems() if asked.may_know_of(one)]


@router.post("/runs")
async def start_run(wanted: NewRun, asked: Reader) -> Response:
    """Queue a run of a job."""
    run = await runs_api.start_run(wanted, asked)
    return JSONResponse({"go": f"/runs/{run.id}"})
