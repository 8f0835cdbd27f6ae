"""Whatever goes wrong on one connection, the next is made: without it there is no backup."""

import asyncio

from kit.director_in_process import in_loop
from strongroom.daemons.agent import connections as agent_links
from strongroom.daemons.agent.connections import DirectorLinks
from strongroom.daemons.director.api import agent_dialling
from strongroom.daemons.director.api.agent_connections import AgentConnections
from strongroom.daemons.director.api.agent_dialling import AgentDialling
from strongroom.daemons.director.api.connections import CertifiedPeer
from strongroom.net.control.messages import Hello, encode
from strongroom.net.identities.peer import Peer


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


class Welcoming:
    """Who has nothing against any agent; and nobody is revoked."""

    def refusal(self, name):
        return ""

    def is_revoked(self, serial):
        return False


@in_loop
async def test_a_long_name_in_any_script_is_refused_like_another():
    hello = Hello(
        name="x" + "\u00e9" * 200,
        protocol=1,
        version="1",
        platform="p",
        clock_ns=0,
        boot_id="",
        features=(),
        runs=(),
    )
    sent = []

    async def receive():
        return {"type": "websocket.receive", "text": encode(hello).decode()}

    async def send(message):
        sent.append(message)

    connections = AgentConnections(Welcoming(), Welcoming())
    certified = CertifiedPeer(Peer("web1", "agent", "ab"), 1e12, b"")
    await connections.converse(certified, "192.0.2.1", receive, send, lambda: None)
    (closing,) = sent
    assert closing["code"] == 4003
    assert len(closing["reason"].encode()) <= 123
