"""What peers that misbehave can do to the API: nothing that lasts."""

import asyncio
import contextlib
import json
import logging
import socket
from types import SimpleNamespace

import httpx
import pytest

from kit.connections import is_closed
from strongroom.base import clock
from strongroom.director.http import http_connection, server
from strongroom.director.http import limits as bodies
from strongroom.director.http import limits as connection_limits
from strongroom.director.http.http_connection import LARGEST_HEAD_BYTES
from strongroom.director.http.limits import (
    LARGEST_BODY_BYTES,
    MOST_HANDSHAKES,
    MOST_HANDSHAKES_OF_AN_ADDRESS,
    MOST_OF_AN_ADDRESS,
)
from strongroom.net.channels.tls_contexts import authority_context, client_context
from strongroom.service.log_lines import MOST_A_MINUTE

UPGRADE = (
    b"GET /api/v1/agents/connect HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n"
    b"Strongroom-Request: 1\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)


@pytest.fixture
def raw(director):
    """A TLS connection without a certificate, to write bytes to."""
    context = authority_context(director.house.director.authority_pem)
    with (
        socket.create_connection(("127.0.0.1", director.port), timeout=30) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as connection,
    ):
        yield connection


def everything(connection):
    found = bytearray()
    while data := connection.recv(65536):
        found += data
    return bytes(found)


def test_a_body_that_is_too_large_is_refused_before_it_is_read(director):
    with director.client("admin") as api:
        answer = api.post("/runs", content=b"x" * (LARGEST_BODY_BYTES + 1))
        assert answer.status_code == 413
        assert answer.json()["error_id"] == "usage"
        # Who continues sending into a closed connection may not get to read the answer.
        with contextlib.suppress(httpx.TransportError):
            chunks = (b"x" * 65536 for _ in range(1000))
            assert api.post("/runs", content=chunks).status_code == 413
        assert api.get("/me").status_code == 200


def test_a_body_that_does_not_come_is_not_waited_for(raw, monkeypatch):
    monkeypatch.setattr(bodies, "BODY_TIMEOUT_SECONDS", 0.2)
    raw.sendall(b"POST /api/v1/enrol HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nabc")
    answer = everything(raw)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error_id"] == "usage"


@pytest.mark.parametrize("sent", [b"", b"GET /api/v1/me HTT", b"GET / HTTP/1.1\r\nA: b\r\n"])
def test_a_head_that_does_not_come_is_not_waited_for(director, monkeypatch, sent):
    monkeypatch.setattr(http_connection, "REQUEST_HEAD_TIMEOUT_SECONDS", 0.2)
    context = authority_context(director.house.director.authority_pem)
    with (
        socket.create_connection(("127.0.0.1", director.port), timeout=30) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as connection,
    ):
        connection.sendall(sent)
        assert everything(connection) == b""


def test_a_head_without_end_is_refused(raw):
    # Who continues sending into a closed connection may not get to read the answer.
    with contextlib.suppress(OSError):
        raw.sendall(b"GET / HTTP/1.1\r\nA: " + b"a" * (2 * LARGEST_HEAD_BYTES))
    with contextlib.suppress(OSError):
        assert everything(raw).startswith(b"HTTP/1.1 400 ")


def test_what_is_no_http_is_refused(raw):
    raw.sendall(b"\0\1\2 hello\r\n\r\n")
    assert everything(raw).startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize("path", ["/docs", "/openapi.json", "/metrics/", "/none"])
def test_there_is_no_other_page(director, path):
    with director.client("admin") as api:
        answer = api.get(director.url + path)
        assert answer.status_code == 404
        assert answer.headers["content-type"].startswith("text/html")


@pytest.mark.parametrize("path", ["/api", "/api/v1", "/api/v1/none", "/api/v1/runs/"])
def test_there_is_nothing_else(director, path):
    with director.client("admin") as api:
        answer = api.get(director.url + path)
        assert answer.status_code == 404
        assert answer.json()["error_id"] == "unknown-name"


def test_a_body_that_is_no_json_is_told_so(director):
    with director.client("admin") as api:
        for content in (b"{", b"\xff\xfe", b"[]", b'"x"', b'{"job":"x","unknown":1}'):
            answer = api.post(
                "/runs", content=content, headers={"content-type": "application/json"}
            )
            assert answer.status_code == 422
            assert answer.json()["error_id"] == "usage"


def test_tls_below_1_3_is_refused(director):
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with (
        socket.create_connection(("127.0.0.1", director.port), timeout=30) as plain,
        pytest.raises(ssl.SSLError),
    ):
        context.wrap_socket(plain)


def test_one_address_has_so_many_connections_without_a_certificate_and_no_more(director):
    context = authority_context(director.house.director.authority_pem)
    with contextlib.ExitStack() as held:

        def dial():
            plain = held.enter_context(
                socket.create_connection(("127.0.0.1", director.port), timeout=30)
            )
            return held.enter_context(context.wrap_socket(plain, server_hostname="localhost"))

        for _ in range(MOST_OF_AN_ADDRESS):
            dial()
        with contextlib.suppress(OSError):
            assert dial().recv(1) == b""
        with director.client("admin") as api:
            assert api.get("/me").status_code == 200

    def is_free():
        with contextlib.suppress(httpx.TransportError), director.client() as nobody:
            return nobody.get("/authority").status_code == 200
        return False

    director.wait_for(is_free)


@pytest.fixture
def few_handshakes(director):
    """Two from one address, three in all; none are left afterwards."""
    unproven = director.daemon.limits.handshakes
    unproven.limit(3, 2)
    yield unproven
    unproven.limit(MOST_HANDSHAKES, MOST_HANDSHAKES_OF_AN_ADDRESS)


def test_unfinished_handshakes_are_few_and_keep_nobody_else_out(director, few_handshakes):
    refused = director.daemon.limits.refused_handshakes
    with contextlib.ExitStack() as held:

        def dial(address):
            return held.enter_context(
                socket.create_connection(("127.0.0.1", director.port), 30, (address, 0))
            )

        strangers = [dial("127.0.0.66") for _ in range(2)]
        director.wait_for(lambda: few_handshakes.count == 2)
        for _ in range(5):
            assert is_closed(dial("127.0.0.66"))
        assert director.daemon.limits.refused_handshakes == refused + 5
        with director.client("admin") as api:
            text = api.get(director.url + "/metrics").text
        assert f"strongroom_director_refused_handshakes_total {refused + 5}" in text
        # Anyone who has proven who they are, or closed, holds no place: many come, one by one.
        for _ in range(5):
            with director.client("admin") as api:
                assert api.get("/me").status_code == 200
        dial("127.0.0.67")
        director.wait_for(lambda: few_handshakes.count == 3)
        assert is_closed(dial("127.0.0.68"))
        strangers[0].close()
        director.wait_for(lambda: few_handshakes.count == 2)
        with director.client("admin") as api:
            assert api.get("/me").status_code == 200
    director.wait_for(lambda: few_handshakes.count == 0)


def test_a_handshake_that_trickles_is_not_waited_for(director, few_handshakes, monkeypatch):
    monkeypatch.setattr(server, "HANDSHAKE_TIMEOUT_SECONDS", 0.5)
    with socket.create_connection(("127.0.0.1", director.port), timeout=0.05) as plain:
        for byte in b"\x16\x03\x01\x40\x00\x01\x00\x3f\xf0" + bytes(600):
            try:
                plain.sendall(bytes([byte]))
                if plain.recv(1) == b"":
                    break
            except TimeoutError:
                continue
            except ConnectionError:
                break
        else:
            raise AssertionError("it was allowed to continue")
    director.wait_for(lambda: few_handshakes.count == 0)


def test_a_certificate_has_so_many_connections_and_no_more(director, monkeypatch, caplog):
    monkeypatch.setattr(connection_limits, "MOST_OF_AN_AGENT", 3)
    agent = director.house.identity("web1", "agent")

    def is_counted():
        return dict(director.daemon.limits.open_connections()).get("agent 'web1'", 0)

    async def hold():
        async with contextlib.AsyncExitStack() as held:

            async def dial():
                reader, writer = await asyncio.open_connection(
                    "127.0.0.1", director.port, ssl=client_context(agent), server_hostname="boss"
                )
                held.callback(writer.transport.abort)
                return reader, writer

            for _ in range(2):
                await dial()
            # A WebSocket counts as well, though nothing has been said on it yet.
            reader, writer = await dial()
            writer.write(UPGRADE)
            assert (await reader.readline()).startswith(b"HTTP/1.1 101 ")
            assert is_counted() == 3
            with contextlib.suppress(OSError):
                assert await (await dial())[0].read() == b""
            # Others are not kept out by it.
            async with httpx.AsyncClient(verify=client_context(director.house.director)) as other:
                assert (await other.get(director.url + "/api/v1/me")).status_code == 200

    asyncio.run(hold())
    assert "agent 'web1' has 3 connections" in caplog.text
    director.wait_for(lambda: not is_counted())


def test_who_dials_and_says_nonsense_fills_no_log(director, monkeypatch, caplog):
    # Later than any minute that another test began, with whatever clock.
    now = [clock.elapsed_seconds() * 1e9]
    monkeypatch.setattr(
        "strongroom.service.log_lines.clock",
        SimpleNamespace(elapsed_seconds=lambda: now[0]),
    )
    caplog.set_level(logging.INFO)
    context = authority_context(director.house.director.authority_pem)
    for sent in (b"\0 no HTTP\r\n\r\n", UPGRADE):
        for _ in range(2 * MOST_A_MINUTE):
            with (
                socket.create_connection(("127.0.0.1", director.port), timeout=30) as plain,
                context.wrap_socket(plain, server_hostname="localhost") as connection,
            ):
                connection.sendall(sent)
                assert everything(connection).startswith(b"HTTP/1.1 40")
    assert caplog.text.count("Invalid HTTP request") == MOST_A_MINUTE
    assert caplog.text.count("an agent without a certificate") == MOST_A_MINUTE
    assert len(caplog.messages) == 2 * MOST_A_MINUTE
    now[0] += 61
    director.wait_for(lambda: f"{MOST_A_MINUTE} more requests" in caplog.text)
    director.wait_for(lambda: f"{MOST_A_MINUTE} more connections" in caplog.text)


def test_a_websocket_for_anything_but_agents_is_refused(raw):
    raw.sendall(UPGRADE.replace(b"/api/v1/agents/connect", b"/api/v1/status"))
    assert everything(raw).startswith(b"HTTP/1.1 400 ")


def test_requests_sent_at_once_are_answered_in_order(raw):
    asked = b"GET /api/v1/authority HTTP/1.1\r\nHost: localhost\r\n\r\n"
    raw.sendall(asked * 2 + asked.replace(b"Host", b"Connection: close\r\nHost"))
    assert everything(raw).count(b"HTTP/1.1 200 OK") == 3


def test_a_request_of_http_1_0_is_answered_in_kind(raw):
    raw.sendall(b"GET /api/v1/authority HTTP/1.0\r\n\r\n")
    answer = everything(raw)
    assert b" 200 OK\r\n" in answer
    assert "revoked" in json.loads(answer.partition(b"\r\n\r\n")[2])


def test_a_request_with_a_body_that_breaks_off_is_refused(raw):
    raw.sendall(
        b"POST /api/v1/enrol HTTP/1.1\r\nHost: localhost\r\n"
        b"Transfer-Encoding: chunked\r\n\r\nno size\r\n"
    )
    assert everything(raw).startswith(b"HTTP/1.1 400 ")
