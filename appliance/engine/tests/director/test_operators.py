"""What an operator tells a run under way stays with it, and what its agent makes of it is told."""

from __future__ import annotations

from director.director_fixture import OPERATOR, client, in_loop, job
from strongroom.net.control import SetBandwidth


@in_loop
async def test_a_limit_stays_with_its_run_when_agent_and_director_are_restarted(director):
    director.configure(client("web1") + job("nightly"))
    await director.open()
    agent = await director.agent("web1")
    run = await director.start("nightly")
    await agent.start(run.id)
    await director.service.set_bandwidth(run.id, 1000, OPERATOR)
    told = SetBandwidth(run_id=run.id, maximum_bytes_per_second=1000)
    assert agent.others == [told]
    await agent.disconnect()
    await agent.connect()
    assert agent.others == [told, told]
    await director.restart()
    await agent.connect(director.service)
    assert agent.others == [told, told, told]


@in_loop
async def test_a_limit_said_while_the_agent_is_away_is_told_when_it_is_back(director):
    director.configure(client("web1") + job("nightly"))
    await director.open()
    agent = await director.agent("web1")
    run = await director.start("nightly")
    await agent.start(run.id)
    await agent.disconnect()
    await director.service.set_bandwidth(run.id, 1000, OPERATOR)
    assert "the agent is told when it is connected again" in await director.texts(run.id)
    await agent.connect()
    assert agent.others == [SetBandwidth(run_id=run.id, maximum_bytes_per_second=1000)]


@in_loop
async def test_an_order_that_is_given_again_has_the_limit_that_was_set(director):
    limited = client("web1", "MaximumBandwidthPerJob = 5000")
    director.configure(limited + job("nightly"))
    await director.open()
    agent = await director.agent("web1")
    run = await director.start("nightly")
    assert agent.order().maximum_bytes_per_second == 5000
    for limit in (1000, 0):
        await director.service.set_bandwidth(run.id, limit, OPERATOR)
        await agent.disconnect()
        agent.lose_journal()
        await agent.connect()
        await director.settle()
        assert agent.order().maximum_bytes_per_second == limit
    assert f"no limit from now on, by {OPERATOR.title}" in await director.texts(run.id)
