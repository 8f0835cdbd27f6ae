"""Whatever goes wrong on one connection, the next is made: without it there is no backup."""

import asyncio
import socket
from types import SimpleNamespace
from typing import ClassVar

from kit.director_in_process import in_loop
from strongroom.agent import connections as agent_links
from strongroom.agent.connections import DirectorLinks
from strongroom.director.http import agent_dialling
from strongroom.director.http.agent_dialling import AgentDialling


class FaultyIdentity:
    """What a connection is made with: at first it has a fault of ours, then it is `used` again."""

    def __init__(self):
        self.used = asyncio.Event()
        self._faults = [KeyError("a fault of ours")]

    def __getattr__(self, name):
        if self._faults:
            raise self._faults.pop()
        self.used.set()
        raise ConnectionRefusedError


@in_loop
async def test_an_agent_dials_its_director_again_after_a_fault(monkeypatch):
    monkeypatch.setattr(agent_links, "SHORTEST_PAUSE_SECONDS", 0.01)
    identity = FaultyIdentity()
    director = SimpleNamespace(name="boss", dials=True, longest_pause_seconds=1.0)

    class Settings:
        directors: ClassVar = {"boss": director}
        listen_addresses = ()

        @property
        def identity_folder(self):
            return identity.folder

    links = DirectorLinks(Settings())
    await links.start(None)
    await asyncio.wait_for(identity.used.wait(), 30)
    await links.stop()


@in_loop
async def test_a_director_dials_its_client_again_after_a_fault(monkeypatch):
    monkeypatch.setattr(agent_dialling, "SHORTEST_PAUSE_SECONDS", 0.01)
    identity = FaultyIdentity()
    client = SimpleNamespace(
        name="web1",
        address="127.0.0.1",
        is_dialled=True,
    )
    configured = SimpleNamespace(configuration=SimpleNamespace(clients={"web1": client}))
    dialling = AgentDialling(configured, None, identity)
    with socket.create_server((client.address, 0)) as listening:
        client.port = listening.getsockname()[1]
        dialling.follow()
        await asyncio.wait_for(identity.used.wait(), 30)
        await dialling.stop()
