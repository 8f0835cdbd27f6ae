"""What an operator tells a run under way stays with it, and what its agent makes of it is told."""

from __future__ import annotations

from kit.director_in_process import OPERATOR, client, in_loop, job
from strongroom.net.control.messages import SetBandwidth


@in_loop
async def test_a_limit_stays_with_its_run_when_agent_and_director_are_restarted(director):
    agent, run = await director.running()
    await agent.start(run.id)
    await director.service.commands.set_bandwidth(run.id, 1000, OPERATOR)
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
    agent, run = await director.running()
    await agent.start(run.id)
    await agent.disconnect()
    await director.service.commands.set_bandwidth(run.id, 1000, OPERATOR)
    assert "agent web1 gets it when it reconnects" in await director.texts(run.id)
    await agent.connect()
    assert agent.others == [SetBandwidth(run_id=run.id, maximum_bytes_per_second=1000)]


@in_loop
async def test_an_order_that_is_given_again_has_the_limit_that_was_set(director):
    limited = client("web1", "MaximumBandwidthPerJob = 5000")
    agent = await director.with_agent(limited + job("nightly"))
    run = await director.start("nightly")
    assert agent.order().maximum_bytes_per_second == 5000
    for limit in (1000, 0):
        await director.service.commands.set_bandwidth(run.id, limit, OPERATOR)
        await agent.disconnect()
        agent.lose_journal()
        await agent.connect()
        await director.settle()
        assert agent.order().maximum_bytes_per_second == limit
    assert f"no limit from now on, by {OPERATOR.title}" in await director.texts(run.id)


@in_loop
async def test_a_cancel_that_the_agent_has_not_confirmed_is_told_as_such(director):
    agent, run = await director.running()
    await agent.start(run.id)
    answer = await director.service.commands.cancel(run.id, OPERATOR)
    assert (answer.state, answer.ending) == ("running", "cancelled")
    await director.settle()
    assert "web1 has not confirmed it yet" in await director.texts(run.id)
    await director.go(5)
    assert (await director.run(run.id)).ending == "cancelled"
    await director.go(11)
    ended = await director.run(run.id)
    assert (ended.state, ended.ending) == ("cancelled", "")
    assert "never confirmed" in await director.texts(run.id)


@in_loop
async def test_whoever_watches_hears_of_a_cancel_before_the_agent_confirms_it(director):
    agent, run = await director.running()
    await agent.start(run.id)
    events = director.service.queries.watch(run.id)
    await anext(events)
    await director.service.commands.cancel(run.id, OPERATOR)
    async for event in events:
        if event.run is not None and event.run.ending:
            break
    await director.end(agent, run.id, "cancelled", exit_code=130)
    ended = await director.run(run.id)
    assert (ended.state, ended.ending) == ("cancelled", "")
    assert "never confirmed" not in await director.texts(run.id)


@in_loop
async def test_agents_say_how_many_workers_they_have(director):
    clients = client("web1") + client("web2", "MaximumWorkersPerJob = 3")
    await director.with_agent(clients + job("nightly"))

    async def workers(name: str) -> tuple[int, str]:
        metrics = {one.name: one for one in await director.service.queries.metrics()}
        labels = [one for one, _ in metrics["strongroom_agent_info"].samples]
        (found,) = [one["workers"] for one in labels if one["client"] == name]
        return (await director.service.queries.client(name)).workers, found

    assert await workers("web1") == (2, "2")
    assert await workers("web2") == (0, "")


@in_loop
async def test_a_backup_is_told_what_the_last_one_came_to(director):
    agent = await director.with_agent(client("web1") + job("nightly"))
    run = await director.start("nightly", level="full")
    order = agent.order()
    assert (order.expected_files, order.expected_bytes) == (0, 0)
    await agent.progress(run.id, files=1, bytes=2)
    assert not (await director.run(run.id)).total_is_estimate
    summary = {"files": 30, "directories": 4, "others": 1, "size_bytes": 5000}
    await director.end(agent, run.id, snapshot=f"{1:064x}", summary=summary)
    for level, size_bytes in (("full", 5000), ("incremental", 0)):
        run = await director.start("nightly", level=level)
        order = agent.order()
        assert (order.expected_files, order.expected_bytes) == (30, size_bytes)
        await agent.progress(run.id, files=1, total_files=30, total_is_estimate=True)
        assert (await director.run(run.id)).total_is_estimate
        await director.end(agent, run.id, snapshot=f"{run.id:>064}", summary=summary)


@in_loop
async def test_what_makes_no_sense_of_the_last_backup_is_not_expected_of_the_next(director):
    agent = await director.with_agent(client("web1") + job("nightly"))
    run = await director.start("nightly", level="full")
    summary = {"files": "many", "directories": -4, "size_bytes": 1 << 70}
    await director.end(agent, run.id, snapshot=f"{1:064x}", summary=summary)
    await director.start("nightly", level="full")
    order = agent.order()
    assert (order.expected_files, order.expected_bytes) == (0, 0)
