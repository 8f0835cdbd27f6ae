"""A path that a FileSet names and that is not there: told once, and no backup that has it goes."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kit.daemon_process import wait_for
from kit.house_of_daemons import HouseOfDaemons
from kit.web_server import WebServer

MESSAGES = 'Notify {{ Name = hook; Type = Webhook; URL = "{url}/in" }}'
JOB = """
FileSet {{ Name = two; Include {{ File = "{here}"; File = "{disk}" }} }}
Job {{ Name = both; Job Defs = usual; Client = web1; FileSet = two }}
"""


@pytest.fixture
def web() -> Iterator[WebServer]:
    with WebServer() as server:
        yield server


def test_a_missing_path_is_told_once_and_displaces_no_whole_snapshot(
    new_house: Callable[..., HouseOfDaemons], web: WebServer, folder: Path
) -> None:
    here, disk = folder / "here", folder / "disk"
    for path in (here, disk):
        path.mkdir()
        (path / "file").write_text(path.name)
    house = new_house(
        "web1",
        messages=MESSAGES.format(url=web.url),
        pool="Keep Last = 1",
        schedules=JOB.format(here=here, disk=disk),
        periods=(
            "director.notices.notice_service.LOOK_SECONDS=5",
            "director.notices.notice_service.DELIVER_SECONDS=1",
            "director.notices.delivery.GATHER_SECONDS=1",
        ),
    )

    def told() -> list[tuple[str, str]]:
        notices = [one for asked in web.asked for one in asked.json["notices"]]
        assert all(str(disk) in one["title"] for one in notices if one["event"] == "path-missing")
        return [(one["event"], one["state"]) for one in notices]

    def failed() -> str:
        run = house.run("both")
        assert run["state"] == "failed"
        wait_for(lambda: house.get(f"/runs/{run['id']}")["concluded"], lambda: house.director.log)
        assert str(here) in run["error"]
        assert str(here) in house.log(run["id"])
        return str(run["id"])

    def back_up(state: str) -> str:
        run = house.run("both")
        assert run["state"] == state, house.log(run["id"])
        wait_for(lambda: house.get(f"/runs/{run['id']}")["concluded"], lambda: house.director.log)
        return str(run["snapshot"])

    def kept() -> list[str]:
        return sorted(one["id"] for one in house.get("/snapshots", job="both")["items"])

    whole = back_up("done")
    shutil.rmtree(disk)
    lacking = [back_up("incomplete") for _ in range(2)]
    wait_for(lambda: told() == [("path-missing", "open")], lambda: house.director.log)
    assert kept() == sorted((whole, lacking[1]))
    disk.mkdir()
    (disk / "file").write_text(disk.name)
    back = back_up("done")
    wait_for(lambda: len(told()) > 1, lambda: house.director.log)
    assert told() == [("path-missing", "open"), ("path-missing", "resolved")]
    assert kept() == [back]
    for path in (here, disk):
        shutil.rmtree(path)
    first = failed()
    wait_for(lambda: len(web.asked) > 2, lambda: house.director.log)
    (notice,) = web.asked[-1].json["notices"]
    assert (notice["event"], str(here) in notice["detail"]) == ("job-failed", True)
    assert first[:8] in notice["remedy"]
    newest = failed()
    wait_for(
        lambda: newest[:8] in house.get("/status")["problems"][0]["remedy"],
        lambda: house.director.log,
    )
