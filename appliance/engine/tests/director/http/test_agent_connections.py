"""Agents at the director's WebSocket: who gets in, what arrives, what ends a connection."""

import asyncio
import contextlib
import dataclasses
import logging
import ssl
from dataclasses import dataclass, field

import pytest
from websockets.asyncio.client import connect
from websockets.asyncio.server import serve
from websockets.exceptions import ConnectionClosed, InvalidMessage, InvalidStatus

from kit.connections import House
from kit.director_in_process import in_loop
from kit.director_server import PATIENCE_SECONDS
from strongroom.config.resolve import resolve
from strongroom.config.settings.configuration import DirectorConfiguration
from strongroom.config.trees.loader import LoadOptions, load_text
from strongroom.director.http import agent_connections, agent_dialling
from strongroom.director.http.agent_connections import (
    CLOSE_BAD_MESSAGE,
    CLOSE_CERTIFICATE,
    CLOSE_NOT_WELCOME,
    CLOSE_REPLACED,
    CLOSE_RESTARTING,
    CLOSE_TOO_SLOW,
    AgentConnections,
)
from strongroom.director.http.agent_dialling import AgentDialling
from strongroom.director.http.cross_site import OwnNames
from strongroom.director.http.limits import ConnectionLimits
from strongroom.director.http.server import ApiServer, tls_context
from strongroom.net.channels.tls_contexts import authority_context, client_context, server_context
from strongroom.net.control.messages import (
    OWN_HEADERS,
    Cancel,
    Hello,
    RunLog,
    SetBandwidth,
    decode_for_agent,
    encode,
)
from strongroom.service.log_lines import MOST_A_MINUTE

# More than any reader of JSON goes down.
TOO_DEEP = '{"type":"run-log","new":%s}' % ("[" * 50_000 + "]" * 50_000)


@dataclass
class Events:
    """What a service would be reported."""

    unwelcome: dict[str, str] = field(default_factory=dict)
    said: asyncio.Queue = field(default_factory=asyncio.Queue)
    hold: asyncio.Event | None = None

    def refusal(self, name):
        return self.unwelcome.get(name, "")

    async def on_connected(self, client, hello, address):
        await self.said.put(("connected", client, hello))

    async def on_message(self, client, message):
        if self.hold is not None:
            await self.hold.wait()
        await self.said.put(("message", client, message))

    async def on_undeliverable(self, client, report, error):
        await self.said.put(("undeliverable", client, report))

    async def on_disconnected(self, client):
        await self.said.put(("disconnected", client, None))

    async def next(self):
        return await asyncio.wait_for(self.said.get(), PATIENCE_SECONDS)


class Meeting:
    """A server for agents of a House, and agents that dial it."""

    def __init__(self, house, events, agents, server):
        self.house = house
        self.events = events
        self.agents = agents
        self.server = server

    @property
    def url(self):
        return f"wss://localhost:{self.server.ports[0]}/api/v1/agents/connect"

    async def dial(self, identity, **options):
        return await connect(
            self.url,
            ssl=client_context(identity),
            additional_headers=OWN_HEADERS,
            compression=None,
            open_timeout=PATIENCE_SECONDS,
            **options,
        )

    async def meet(self, identity, **fields):
        """An agent that has said Hello and been heard."""
        socket = await self.dial(identity)
        await socket.send(encode(hello(fields.pop("name", identity.name), **fields)).decode())
        return socket


async def nothing_else(scope, receive, send):
    """An application for requests, of which these tests send none."""
    raise AssertionError("a request that is none of an agent")


@contextlib.asynccontextmanager
async def meeting(house):
    events = Events()
    director = house.identity("boss", "director", "localhost")
    agents = AgentConnections(events, director.trust.revocations)
    agents.start()
    server = ApiServer(
        nothing_else,
        agents,
        tls_context(director),
        [("127.0.0.1", 0)],
        ConnectionLimits(),
        OwnNames(director),
        lambda: None,
    )
    await server.start()
    try:
        yield Meeting(house, events, agents, server)
    finally:
        await agents.stop()
        await server.stop()


def hello(name, **fields):
    return Hello(**{"name": name, "protocol": 1, "version": "1", "platform": "p", "clock_ns": 1,
                    **fields})  # fmt: skip


def line(text, sequence=1):
    return RunLog(run_id="r" * 32, sequence=sequence, time_ns=1, level="info", text=text)


async def closing(socket):
    """Code and reason that the other side closed with."""
    with contextlib.suppress(ConnectionClosed):
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                await socket.recv()
    return socket.close_code, socket.close_reason


@in_loop
async def test_an_agent_is_heard_and_spoken_to(house):
    async with meeting(house) as at, await at.meet(house.agent, runs=("a" * 32,)) as agent:
        kind, client, said = await at.events.next()
        assert (kind, client, said.runs) == ("connected", "web1", ("a" * 32,))
        assert at.agents.is_connected("web1")
        for number in range(20):
            await agent.send(encode(line(str(number), number)).decode())
        heard = [(await at.events.next())[2].text for _ in range(20)]
        assert heard == [str(number) for number in range(20)]
        assert await at.agents.send("web1", Cancel(run_id="b" * 32))
        assert await at.agents.send(
            "web1", SetBandwidth(run_id="b" * 32, maximum_bytes_per_second=7)
        )
        assert decode_for_agent(await agent.recv()) == Cancel(run_id="b" * 32)
        assert decode_for_agent(await agent.recv()).maximum_bytes_per_second == 7
        await agent.close()
        assert (await at.events.next())[0] == "disconnected"
        assert not at.agents.is_connected("web1")
        assert not await at.agents.send("web1", Cancel(run_id="b" * 32))


@in_loop
async def test_without_an_agents_certificate_nobody_gets_in(house):
    async with meeting(house) as at:
        nobody = authority_context(house.director.authority_pem)
        for context in (nobody, client_context(house.operator), client_context(house.storage)):
            with pytest.raises(InvalidStatus) as refusal:
                await connect(at.url, ssl=context, open_timeout=PATIENCE_SECONDS)
            assert refusal.value.response.status_code == 403
        assert at.events.said.empty()


@in_loop
async def test_a_certificate_of_another_authority_does_not_get_as_far_as_http(house, tmp_path):
    stranger = House(tmp_path).agent
    context = client_context(stranger)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    async with meeting(house) as at:
        with pytest.raises((OSError, InvalidMessage)):
            await connect(at.url, ssl=context, open_timeout=PATIENCE_SECONDS)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"name": "web2"}, "its certificate names 'web1'"),
        ({"protocol": 99}, "it speaks protocol 99"),
    ],
)
@in_loop
async def test_a_hello_that_does_not_fit_is_refused(house, fields, reason):
    async with meeting(house) as at, await at.meet(house.agent, **fields) as agent:
        code, told = await closing(agent)
        assert code == CLOSE_NOT_WELCOME
        assert reason in told
        assert at.events.said.empty()


@in_loop
async def test_a_long_name_in_any_script_is_refused_like_another(house):
    name = "x" + "\u00e9" * 200
    async with meeting(house) as at, await at.meet(house.agent, name=name) as agent:
        code, reason = await closing(agent)
        assert code == CLOSE_NOT_WELCOME
        assert 100 < len(reason.encode()) <= 123


@in_loop
async def test_who_says_no_hello_is_disconnected(house, monkeypatch):
    monkeypatch.setattr(agent_connections, "HELLO_TIMEOUT_SECONDS", 0.05)
    async with meeting(house) as at, await at.dial(house.agent) as agent:
        assert await closing(agent) == (CLOSE_NOT_WELCOME, "it did not send Hello in time")


@in_loop
async def test_a_client_that_is_disabled_is_told_so(house):
    async with meeting(house) as at:
        at.events.unwelcome["web1"] = "client web1 is disabled"
        async with await at.dial(house.agent) as agent:
            assert await closing(agent) == (CLOSE_NOT_WELCOME, "client web1 is disabled")


@pytest.mark.parametrize("text", [b'{"type":"\xff"}', TOO_DEEP])
@in_loop
async def test_a_first_message_that_cannot_be_read_is_no_hello(house, text):
    async with meeting(house) as at, await at.dial(house.agent) as agent:
        await agent.send(text)
        assert await closing(agent) == (CLOSE_NOT_WELCOME, "it did not send Hello in time")


@pytest.mark.parametrize(
    "text", ["{", '{"type":"no-such-message"}', "[1]", b'{"type":"\xff"}', TOO_DEEP]
)
@in_loop
async def test_a_message_that_makes_no_sense_ends_the_connection(house, text):
    async with meeting(house) as at, await at.meet(house.agent) as agent:
        await at.events.next()
        await agent.send(text)
        assert (await closing(agent))[0] == CLOSE_BAD_MESSAGE
        assert (await at.events.next())[0] == "disconnected"


@in_loop
async def test_a_report_that_cannot_be_decoded_is_told_and_the_next_is_read(house):
    async with meeting(house) as at, await at.meet(house.agent) as agent:
        await at.events.next()
        await agent.send('{"type":"run-ended","run_id":"r1","sequence":3,"status":"splendid"}')
        kind, client, report = await at.events.next()
        assert (kind, client) == ("undeliverable", "web1")
        assert (report.run_id, report.sequence, report.is_end) == ("r1", 3, True)
        log = RunLog(run_id="r1", sequence=4, time_ns=0, level="info", text="on")
        await agent.send(encode(log).decode())
        assert (await at.events.next())[0] == "message"


def test_an_agent_that_comes_again_and_again_fills_no_log(house, caplog):
    caplog.set_level(logging.INFO, "strongroom")

    async def scene():
        async with meeting(house) as at:
            for _ in range(MOST_A_MINUTE):
                async with await at.meet(house.agent) as agent:
                    await agent.send("{")
                    assert (await closing(agent))[0] == CLOSE_BAD_MESSAGE
                while (await at.events.next())[0] != "disconnected":
                    pass

    asyncio.run(scene())
    assert "invalid message from agent web1" in caplog.text
    assert len([line for line in caplog.messages if "agent web1" in line]) == MOST_A_MINUTE


@in_loop
async def test_a_second_hello_ends_the_connection(house):
    async with meeting(house) as at, await at.meet(house.agent) as agent:
        await agent.send(encode(hello("web1")).decode())
        assert (await closing(agent))[0] == CLOSE_BAD_MESSAGE


@in_loop
async def test_an_oversized_message_ends_the_connection(house):
    async with meeting(house) as at, await at.meet(house.agent) as agent:
        await at.events.next()
        with contextlib.suppress(ConnectionClosed):
            await agent.send("x" * (9 << 20))
        assert (await closing(agent))[0] == 1009
        assert (await at.events.next())[0] == "disconnected"


@in_loop
async def test_a_newer_connection_replaces_an_older_one_without_a_gap(house):
    async with meeting(house) as at, await at.meet(house.agent) as older:
        await at.events.next()
        async with await at.meet(house.agent) as newer:
            assert (await closing(older))[0] == CLOSE_REPLACED
            await newer.send(encode(line("after")).decode())
            kinds = [(await at.events.next())[0] for _ in range(2)]
            assert kinds == ["connected", "message"]
            assert at.agents.is_connected("web1")


def test_a_revoked_certificate_ends_an_open_connection_and_lets_nobody_in(tmp_path, monkeypatch):
    house = House(tmp_path)
    monkeypatch.setattr(agent_connections, "CLOSE_TIMEOUT_SECONDS", 0.5)
    failures = []

    async def scene():
        asyncio.get_running_loop().set_exception_handler(lambda _, what: failures.append(what))
        async with meeting(house) as at, await at.meet(house.agent) as agent:
            await at.events.next()
            house.authority.revoke("web1")
            async with asyncio.timeout(5):
                code, _ = await closing(agent)
            assert code == CLOSE_CERTIFICATE
            assert (await at.events.next())[0] == "disconnected"
            async with await at.dial(house.agent) as again:
                assert await closing(again) == (CLOSE_NOT_WELCOME, "its certificate was revoked")
            # By now it would be cut off, had it not gone.
            await asyncio.sleep(1)

    asyncio.run(scene())
    assert failures == []


@in_loop
async def test_the_service_can_disconnect_an_agent(house):
    async with meeting(house) as at, await at.meet(house.agent) as agent:
        await at.events.next()
        await at.agents.disconnect("web1", "client web1 is disabled")
        assert await closing(agent) == (CLOSE_NOT_WELCOME, "client web1 is disabled")


@in_loop
async def test_a_flood_waits_in_the_agents_own_socket(house):
    async with meeting(house) as at, await at.meet(house.agent) as agent:
        await at.events.next()
        at.events.hold = asyncio.Event()
        text = encode(line("x" * 100_000)).decode()
        sent = 0
        with contextlib.suppress(TimeoutError):
            for _ in range(1000):
                await asyncio.wait_for(agent.send(text), 1)
                sent += 1
        # What fits into buffers of sockets and TLS, and no more.
        assert sent < 500
        at.events.hold.set()
        for _ in range(sent):
            assert (await at.events.next())[0] == "message"


@in_loop
async def test_an_agent_that_takes_nothing_is_disconnected_and_holds_up_nobody(house, monkeypatch):
    monkeypatch.setattr(agent_connections, "SEND_TIMEOUT_SECONDS", 0.2)
    web2 = house.identity("web2", "agent")
    async with meeting(house) as at, await at.meet(web2) as quick:
        await at.events.next()
        slow = await at.dial(house.agent, max_queue=1)
        await slow.send(encode(hello("web1")).decode())
        await at.events.next()
        slow.transport.pause_reading()
        big = Cancel(run_id="x" * (1 << 20))
        for _ in range(64):
            if not await at.agents.send("web1", big):
                break
        assert await at.agents.send("web2", Cancel(run_id="y"))
        assert decode_for_agent(await quick.recv()) == Cancel(run_id="y")
        assert await at.events.next() == ("disconnected", "web1", None)
        assert not at.agents.is_connected("web1")
        slow.transport.abort()


@in_loop
async def test_a_full_queue_disconnects(house, monkeypatch):
    monkeypatch.setattr(agent_connections, "LARGEST_QUEUE_BYTES", 100)
    async with meeting(house) as at, await at.meet(house.agent) as agent:
        await at.events.next()
        assert not await at.agents.send("web1", Cancel(run_id="x" * 200))
        assert (await closing(agent))[0] == CLOSE_TOO_SLOW


@in_loop
async def test_agents_are_told_to_come_back_when_the_director_stops(house):
    async with meeting(house) as at:
        agent = await at.meet(house.agent)
        await at.events.next()
        await at.agents.stop()
        assert (await closing(agent))[0] == CLOSE_RESTARTING


@in_loop
async def test_a_hundred_agents_at_once_are_all_heard(house):
    crowd = [house.identity(f"crowd{number}", "agent") for number in range(100)]

    async def one(at, identity):
        async with await at.meet(identity) as agent:
            for number in range(5):
                await agent.send(encode(line(identity.name, number)).decode())
            assert decode_for_agent(await agent.recv()).run_id == identity.name

    async with meeting(house) as at:
        tasks = [asyncio.create_task(one(at, identity)) for identity in crowd]
        heard = dict.fromkeys((identity.name for identity in crowd), 0)
        while any(count < 5 for count in heard.values()):
            kind, client, _ = await at.events.next()
            if kind == "message":
                heard[client] += 1
        for identity in crowd:
            assert await at.agents.send(identity.name, Cancel(run_id=identity.name))
        await asyncio.gather(*tasks)
        assert set(heard.values()) == {5}


PASSIVE = """
Director { Name = boss; Password = x; Messages = none }
Client { Name = web1; Password = x; Address = 127.0.0.1; Port = PORT
  Connection From Director To Client = yes }
Client { Name = web2; Password = x; Address = 127.0.0.1; Port = PORT }
"""


@dataclass
class Configured:
    configuration: object


def configured(port):
    text = PASSIVE.replace("PORT", str(port))
    loaded = load_text(text, "director", LoadOptions())
    return Configured(DirectorConfiguration.of(resolve(loaded, whole=False).director))


@contextlib.asynccontextmanager
async def listening_agent(identity):
    """An agent that waits to be dialled; gives its port and a queue of connections."""
    connections = asyncio.Queue()

    async def answer(socket):
        await socket.send(encode(hello("web1")).decode())
        await connections.put(socket)
        await socket.wait_closed()

    async with serve(answer, "127.0.0.1", 0, ssl=server_context(identity)) as server:
        yield server.sockets[0].getsockname()[1], connections


@in_loop
async def test_the_director_dials_an_agent_that_listens_again_and_again(house, monkeypatch):
    monkeypatch.setattr(agent_dialling, "SHORTEST_PAUSE_SECONDS", 0.05)
    async with meeting(house) as at, listening_agent(house.agent) as (port, connections):
        dialling = AgentDialling(configured(port), at.agents, house.director)
        dialling.follow()
        try:
            for _ in range(2):
                assert (await at.events.next())[:2] == ("connected", "web1")
                socket = await asyncio.wait_for(connections.get(), PATIENCE_SECONDS)
                await socket.send(encode(line("dialled")).decode())
                assert (await at.events.next())[2].text == "dialled"
                assert await at.agents.send("web1", Cancel(run_id="z"))
                assert decode_for_agent(await socket.recv()) == Cancel(run_id="z")
                await socket.close()
                assert (await at.events.next())[0] == "disconnected"
        finally:
            await dialling.stop()


def test_an_agent_that_does_not_answer_is_a_line_a_day(house, monkeypatch, caplog):
    monkeypatch.setattr(agent_dialling, "SHORTEST_PAUSE_SECONDS", 0.01)
    attempts = asyncio.Queue()

    async def hang_up(reader, writer):
        await reader.read(100)
        writer.close()
        await attempts.put(None)

    async def scene():
        server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
        async with server, meeting(house) as at:
            port = server.sockets[0].getsockname()[1]
            dialling = AgentDialling(configured(port), at.agents, house.director)
            dialling.follow()
            try:
                for _ in range(5):
                    await asyncio.wait_for(attempts.get(), PATIENCE_SECONDS)
            finally:
                await dialling.stop()

    asyncio.run(scene())
    assert sum("trying again" in one for one in caplog.messages) == 1


@in_loop
async def test_who_is_dialled_must_be_who_was_meant(house, caplog):
    web9 = house.identity("web9", "agent")
    async with meeting(house) as at, listening_agent(web9) as (port, connections):
        dialling = AgentDialling(configured(port), at.agents, house.director)
        dialling.follow()
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while "expected client 'web1'" not in caplog.text:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            # It is told nothing, not even that it reached a director.
            assert connections.empty()
            assert at.events.said.empty()
        finally:
            await dialling.stop()


@in_loop
async def test_a_client_that_is_no_longer_dialled_keeps_no_connection(house):
    async with meeting(house) as at, listening_agent(house.agent) as (port, _):
        known = configured(port)
        dialling = AgentDialling(known, at.agents, house.director)
        dialling.follow()
        assert (await at.events.next())[0] == "connected"
        dialling.follow()
        assert at.agents.is_connected("web1")
        known.configuration = dataclasses.replace(known.configuration, clients={})
        dialling.follow()
        assert (await at.events.next())[0] == "disconnected"
        await dialling.stop()
