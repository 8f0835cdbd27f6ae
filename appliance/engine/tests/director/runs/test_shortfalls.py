"""A backup of far less than usual is incomplete, displaces none, and can be accepted."""

from __future__ import annotations

import pytest

from kit.director_in_process import OPERATOR, client, in_loop, job
from strongroom.base.errors import ConflictError
from strongroom.director.catalog.runs import find_runs
from strongroom.director.results.runs import RunFilter
from strongroom.director.results.snapshots import SnapshotFilter

USUAL = {"files": 400, "size_bytes": 4_000_000, "stored_bytes": 10, "problems": 0,
         "empty_paths": ["/srv/spool"], "mounts": {"/srv/data": "/srv/data"}}  # fmt: skip


async def backed_up(director, agent, number, name="nightly", **changes):
    """A run of the job whose agent reports a summary; as it is in the catalog afterwards."""
    director.time.pass_by(86400)
    run = await director.start(name)
    await agent.start(run.id)
    snapshot = f"{number:064x}"
    await director.end(agent, run.id, snapshot=snapshot, summary=USUAL | changes)
    return await director.run(run.id)


@pytest.fixture
def opened(director):
    async def opened(more: str = "", **settings):
        return await director.with_agent(client("web1") + job("nightly", more=more), **settings)

    return opened


SHORT = (
    {"files": 40},
    {"files": 0, "size_bytes": 0},
    {"size_bytes": 400_000},
    # Rights were lost: the names are there, and their content cannot be read.
    {"problems": 395},
    {"empty_paths": ["/srv/spool", "/srv/data"]},
    {"mounts": {"/srv/data": "/"}},
    {"mounts": {"/srv/data": "/srv"}},
)
WHOLE = (
    {"files": 41, "size_bytes": 500_000},
    {"problems": 40},
    {"empty_paths": []},
    {"mounts": {"/srv/data": "/srv/data", "/home": "/home"}},
    {"mounts": {}},
    # An agent of before reports none of these.
    {"mounts": None, "empty_paths": None},
)


@pytest.mark.parametrize("changes", SHORT, ids=str)
@in_loop
async def test_far_less_than_usual_is_incomplete_and_displaces_none(director, opened, changes):
    agent = await opened(pool="KeepLast = 3")
    for number in (1, 2, 3):
        assert (await backed_up(director, agent, number)).state == "done"
    for number in (4, 5, 6, 7):
        assert (await backed_up(director, agent, number, **changes)).state == "incomplete"
    kept = await director.service.snapshots.find(SnapshotFilter(job="nightly"))
    assert {f"{number:064x}" for number in (1, 2, 3)} <= {one.id for one in kept}
    run = await backed_up(director, agent, 8)
    assert run.state == "done"


@pytest.mark.parametrize("changes", WHOLE, ids=str)
@in_loop
async def test_what_varies_is_no_fault(director, opened, changes):
    agent = await opened()
    await backed_up(director, agent, 1)
    run = await backed_up(director, agent, 2, **changes)
    assert run.state == "done"


@in_loop
async def test_a_small_job_varies_but_is_not_empty(director, opened):
    agent = await opened()
    small = {"files": 5, "size_bytes": 5000}
    await backed_up(director, agent, 1, **small)
    run = await backed_up(director, agent, 2, **small | {"files": 1, "size_bytes": 10})
    assert run.state == "done"
    gone = {"files": 1, "problems": 1, "missing_paths": 1, "missing_path_names": ["/srv/data"]}
    run = await backed_up(director, agent, 3, **gone)
    assert "shortfalls" not in run.summary
    run = await backed_up(director, agent, 4, files=0, size_bytes=0)
    assert run.state == "incomplete"


@in_loop
async def test_a_changed_fileset_may_be_small_but_not_empty(director, opened):
    agent = await opened()
    await backed_up(director, agent, 1)
    file = director.folder / "etc/director.d/all/all.conf"
    for number, (folder, files, state) in enumerate(
        (("/etc", 40, "done"), ("/opt", 0, "incomplete")), 2
    ):
        text = file.read_text()
        place = "/home" if "File = /home" in text else "/etc"
        file.write_text(text.replace(f"File = {place}", f"File = {folder}"))
        await director.service.commands.reload(OPERATOR)
        run = await backed_up(director, agent, number, files=files)
        assert run.state == state


@in_loop
async def test_an_operator_says_that_it_is_right_now(director, opened):
    agent = await opened(pool="KeepLast = 2")
    await backed_up(director, agent, 1)
    first = await backed_up(director, agent, 2, files=7, size_bytes=70)
    second = await backed_up(director, agent, 3, files=7, size_bytes=70)
    accepted = await director.service.commands.accept(first.id, OPERATOR)
    assert (accepted.id, accepted.state) == (first.id, "done")
    assert await director.state(second.id) == "done"
    # From now on this is what is usual, and retention counts these.
    run = await backed_up(director, agent, 4, files=7, size_bytes=70)
    assert run.state == "done"
    with pytest.raises(ConflictError):
        await director.service.commands.accept(run.id, OPERATOR)


@in_loop
async def test_a_backup_after_a_short_one_is_compared_with_the_last_whole_one(director, opened):
    agent = await opened("Level = Incremental")

    def last_parent():
        return find_runs(director.service.context.catalog, RunFilter(limit=1))[0].parent

    async def parent(number, **changes):
        await backed_up(director, agent, number, **changes)
        return (await director.service.context.in_thread(last_parent)).lstrip("0")

    assert await parent(1) == ""
    assert await parent(2, files=0, size_bytes=0) == "1"
    assert await parent(3) == "1"
    assert await parent(4, empty_paths=["/srv/data"]) == "3"
    # It holds nearly all, and newer content than the whole one.
    assert await parent(5) == "4"
