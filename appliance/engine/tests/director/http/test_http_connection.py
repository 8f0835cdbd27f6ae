"""Requests on our TLS streams: what comes back, and what is left of a connection that is lost."""

import asyncio
import contextlib
import ssl

import pytest

from kit.connections import House
from kit.director_in_process import in_loop
from kit.director_server import PATIENCE_SECONDS
from strongroom.director.http import server as server_module
from strongroom.director.http.agent_connections import AgentConnections
from strongroom.director.http.cross_site import OwnNames
from strongroom.director.http.limits import BoundedBodies, ConnectionLimits
from strongroom.director.http.server import ApiServer, tls_context
from strongroom.net.channels.tls_contexts import authority_context

ASKED = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
CHUNK = b"x" * 65536
WEBSOCKET = (
    b"GET /api/v1/agents/connect HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"
    b"Connection: Upgrade\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
    b"Sec-WebSocket-Version: 13\r\n\r\n"
)


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    return House(tmp_path_factory.mktemp("house"))


@contextlib.asynccontextmanager
async def serving(house, application):
    """A server of an application; gives its limits, and a way to connect to it."""
    director = house.identity("boss", "director", "localhost")
    agents = AgentConnections(None, director.trust.revocations)
    limits = ConnectionLimits()
    server = ApiServer(
        application,
        agents,
        tls_context(director),
        [("127.0.0.1", 0)],
        limits,
        OwnNames(director),
        lambda: None,
    )
    await server.start()

    async def dial():
        context = authority_context(director.authority_pem)
        return await asyncio.open_connection(
            "127.0.0.1", server.ports[0], ssl=context, server_hostname="localhost"
        )

    try:
        yield limits, dial
    finally:
        await server.stop()


async def until_closed(limits):
    async with asyncio.timeout(PATIENCE_SECONDS):
        while dict(limits.open_connections()):  # noqa: ASYNC110
            await asyncio.sleep(0.05)


def endless(paused):
    """An application whose answers do not end, and that says when it waits for its reader."""

    async def application(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for number in range(10_000):
            await send({"type": "http.response.body", "body": CHUNK, "more_body": True})
            await asyncio.sleep(0)
            paused.append(number)

    return application


@pytest.mark.parametrize("asked", [ASKED, 2 * ASKED], ids=["one request", "another behind it"])
@in_loop
async def test_a_reader_who_is_gone_is_noticed_in_the_midst_of_an_answer(house, asked):
    sent = []
    async with serving(house, endless(sent)) as (limits, dial):
        reader, writer = await dial()
        writer.write(asked)
        assert (await reader.read(1000)).startswith(b"HTTP/1.1 200 ")
        writer.transport.abort()
        await until_closed(limits)


@in_loop
async def test_an_answer_waits_for_a_reader_who_takes_nothing(house):
    sent = []
    async with serving(house, endless(sent)) as (limits, dial):
        reader, writer = await dial()
        reader._transport.pause_reading()  # noqa: SLF001
        writer.write(ASKED)
        before = -1
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(sent) == 0 or len(sent) != before:
                before = len(sent)
                await asyncio.sleep(0.5)
        # What the sockets and the buffers on both sides hold, not all that there is.
        assert len(sent) * len(CHUNK) < 64 << 20
        writer.transport.abort()
        await until_closed(limits)


@in_loop
async def test_an_answer_is_whole_although_the_connection_ends_after_it(house):
    async def application(scope, receive, send):
        headers = [(b"connection", b"close"), (b"content-length", str(100 * len(CHUNK)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": 100 * CHUNK})

    async with serving(house, application) as (limits, dial):
        reader, writer = await dial()
        writer.write(ASKED)
        # The end is reported by TLS, so nothing can be missing unnoticed.
        with contextlib.suppress(ssl.SSLError):
            answer = await reader.read(-1)
        assert answer.partition(b"\r\n\r\n")[2] == 100 * CHUNK
        writer.close()
        await until_closed(limits)


async def slow_hello(scope, receive, send):
    """Answers `hello`, a moment later, to anyone who has sent a whole request."""
    while (await receive()).get("more_body"):
        pass
    await asyncio.sleep(0.3)
    headers = [(b"content-length", b"5")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"hello"})


@in_loop
async def test_a_websocket_behind_another_request_neither_waits_nor_hinders_the_end(house):
    async with serving(house, BoundedBodies(slow_hello)) as (limits, dial):
        reader, writer = await dial()
        writer.write(ASKED + WEBSOCKET)
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert b"hello" in await reader.readuntil(b"hello")
            assert (await reader.readline()).startswith(b"HTTP/1.1 400 ")
        await until_closed(limits)
        writer.close()


@in_loop
async def test_the_server_ends_whatever_strangers_have_asked_for(house, monkeypatch, caplog):
    monkeypatch.setattr(server_module, "STOP_SECONDS", 1)
    half_a_body = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nab"
    asked = (ASKED + WEBSOCKET, 2 * ASKED, half_a_body, ASKED[:20], b"")
    writers = []
    async with serving(house, BoundedBodies(slow_hello)) as (limits, dial):
        for one in asked:
            _, writer = await dial()
            writer.write(one)
            writers.append(writer)
        await asyncio.sleep(0.5)
    # No handler was cancelled, which uvicorn logs with a traceback.
    assert not [line for line in caplog.records if line.levelname == "ERROR"]
    await until_closed(limits)
    for writer in writers:
        writer.close()


@in_loop
async def test_what_follows_the_last_request_does_not_replace_its_answer(house):
    async with serving(house, BoundedBodies(slow_hello)) as (_, dial):
        reader, writer = await dial()
        writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        await asyncio.sleep(0.1)
        writer.write(b"\r\n")
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
            assert b"hello" in await reader.readuntil(b"hello")
        writer.close()


@in_loop
async def test_what_is_no_websocket_behind_a_request_for_one_is_no_internal_error(house, caplog):
    async with serving(house, BoundedBodies(slow_hello)) as (limits, dial):
        reader, writer = await dial()
        writer.write(WEBSOCKET + ASKED)
        async with asyncio.timeout(PATIENCE_SECONDS):
            with contextlib.suppress(OSError):
                await reader.read()
        await until_closed(limits)
        writer.close()
    assert not [line for line in caplog.records if line.levelname == "ERROR"]
