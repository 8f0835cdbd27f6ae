"""A compromised agent connects, which starts a run, says that it failed, and connects again."""

import pytest

from kit.director_in_process import START_NS, TestDirector, client, in_loop, job
from kit.virtual_time import VirtualTime

TIMES = 40
PAUSE_SECONDS = 60


@pytest.fixture
def director(tmp_path, monkeypatch):
    made = TestDirector(tmp_path, VirtualTime(monkeypatch, START_NS))
    more = "RunOnIncomingConnectInterval = 1 day"
    made.configure(client("web1") + job("laptop", more=more))
    return made


@in_loop
async def test_the_catalog_gets_a_run_a_minute_at_most(director):
    agent = await director.with_agent()
    for _ in range(TIMES):
        for run in await director.runs(states=("running",)):
            await agent.start(run.id)
            await director.end(agent, run.id, "failed")
        await agent.disconnect()
        await director.go(1)
        await agent.connect()
        await director.settle()
    assert 1 <= len(await director.runs(limit=100)) <= 3
    # Anyone who waits gets its run.
    (waiting,) = await director.runs(states=("waiting", "queued", "running"))
    await director.go(PAUSE_SECONDS)
    assert await director.state(waiting.id) == "running"
