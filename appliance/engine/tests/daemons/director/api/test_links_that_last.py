"""Whatever goes wrong on one connection, the next is made: without it there is no backup."""

import asyncio

from kit.director_in_process import in_loop
from strongroom.daemons.agent import connections as agent_links
from strongroom.daemons.agent.connections import DirectorLinks
from strongroom.daemons.director.api import agent_dialling
from strongroom.daemons.director.api.agent_dialling import AgentDialling


def fails_once():
    """A way to dial that has a fault at first, and an event for the second time."""
    again = asyncio.Event()
    faults = [KeyError("a fault of ours")]

    async def dial(*place):
        if faults:
            raise faults.pop()
        again.set()
        await asyncio.Event().wait()

    return dial, again


async def end(task):
    task.cancel()
    await asyncio.wait((task,))


@in_loop
async def test_an_agent_dials_its_director_again_after_a_fault(monkeypatch):
    monkeypatch.setattr(agent_links, "SHORTEST_PAUSE_SECONDS", 0.01)
    dial, again = fails_once()
    links = DirectorLinks(None)
    monkeypatch.setattr(links, "_dial", dial)

    class Director:
        name = "boss"
        longest_pause_seconds = 1.0

    task = asyncio.create_task(links._keep_dialling(Director()))
    await asyncio.wait_for(again.wait(), 30)
    await end(task)


@in_loop
async def test_a_director_dials_its_client_again_after_a_fault(monkeypatch):
    monkeypatch.setattr(agent_dialling, "SHORTEST_PAUSE_SECONDS", 0.01)
    dial, again = fails_once()
    dialling = AgentDialling(None, None, None)
    monkeypatch.setattr(dialling, "_dial", dial)
    task = asyncio.create_task(dialling._keep("web1", "192.0.2.1", 9102))
    await asyncio.wait_for(again.wait(), 30)
    await end(task)
