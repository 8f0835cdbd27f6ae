"""Snapshots that an agent called its own while no one could look."""

from __future__ import annotations

import asyncio

import pytest

from kit.director_in_process import OPERATOR, client, in_loop, job
from kit.director_with_repositories import Place
from kit.virtual_time import ShiftedTime
from strongroom.base.errors import DamageError
from strongroom.director.results.snapshots import RestoreRequest, SnapshotFilter


@pytest.fixture
def director(tmp_path, monkeypatch):
    return Place(tmp_path, ShiftedTime(monkeypatch))


@in_loop
async def test_the_snapshot_of_another_that_an_agent_named_unseen_is_opened_for_nobody(director):
    director.configure(
        client("web1") + client("web2") + job("nightly") + job("other", "web2"),
        pool="KeepLast = 1",
    )
    # The director has no access to the repository at first, so it can only believe the agent.
    place = director.folder / "etc" / "director.d" / "all" / "all.conf"
    text = place.read_text()
    place.write_text(text.replace(director.reached("main"), ""))
    agent = await director.with_agent()
    other = await director.agent("web2")
    theirs = await asyncio.to_thread(
        director.command,
        *("backup", str(director.source), "--host", "web2", "--job", "other", "--shards", "1"),
    )
    theirs = theirs["snapshot"]
    run = await director.start("nightly")
    await director.end(agent, run.id, snapshot=theirs, summary={"files": 1})
    place.write_text(text)
    assert (await director.service.commands.reload(OPERATOR)).is_loaded
    assert await director.state(run.id) == "done"
    assert "could not be looked up" in await director.texts(run.id)
    assert (await director.service.snapshots.get(theirs)).client == "web1"
    for name in ("web1", "web2"):
        request = RestoreRequest(theirs, client=name, target=b"/tmp/back")
        restore = await director.service.commands.start_restore(request, OPERATOR)
        await director.settle()
        restore = await director.run(restore.id)
        assert (restore.state, restore.error_id) == ("failed", "damage")
        # Who may see web1 learns no other name.
        assert "is not of web1" in restore.error
        assert "web2" not in restore.error
    assert not agent.orders
    assert not other.orders
    with pytest.raises(DamageError, match="not of web1"):
        await director.service.snapshots.list_files(theirs)
    found = await director.service.snapshots.find_files(b"file3", SnapshotFilter(client="web1"))
    assert found.entries == ()
    assert "not of web1" in found.warnings[0]
    # Nor is it removed to make room for what is web1's own.
    for _ in range(2):
        director.time.pass_by(60)
        own = await director.back_up(agent)
    assert (director.folder / "main" / "snapshots" / theirs).exists()
    assert {one.id for one in await director.service.snapshots.find(SnapshotFilter())} == {
        theirs,
        own,
    }
