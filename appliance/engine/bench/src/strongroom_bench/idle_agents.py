"""What an idle agent costs the director in memory, with our sockets and with a whole ASGI server.

    python -m strongroom_bench.idle_agents [--agents 1000]

Each server is its own process; so many WebSockets with a client's certificate are opened to
it and stay idle, and what its memory grew by is printed for one. Servers:

    director    TLS and WebSocket as the director has them
    uvicorn     uvicorn with asyncio's TLS and its own WebSockets, as it is
    trimmed     the same with 16 KiB instead of 256 KiB for asyncio's TLS buffer, a private setting
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import socket
import ssl
import subprocess
import sys
import tempfile
from typing import Any, Final

import uvicorn

from strongroom.director.http.agent_sockets import accept
from strongroom.director.http.http_connection import HttpConnection, Origin
from strongroom.director.http.limits import certified_peer
from strongroom.director.http.server import tls_context, uvicorn_settings
from strongroom.director.http.tls_stream import TlsStream
from strongroom.net.channels.tls_contexts import client_context
from strongroom.net.identities.authority import Authority
from strongroom.net.identities.identity import Identity
from strongroom.service.log_lines import LimitedLines

_REQUEST: Final = (
    b"GET /api/v1/agents/connect HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n"
    b"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)
_TRIMMED_BYTES: Final = 16 << 10
_HANDSHAKES_AT_ONCE: Final = 20

_log = logging.getLogger(__name__)


async def _none(scope: Any, receive: Any, send: Any) -> None:
    raise AssertionError("no one sends a request")


async def _serve_director(listener: socket.socket, context: ssl.SSLContext) -> None:
    loop = asyncio.get_running_loop()
    tasks = set()
    requests = uvicorn.Server(uvicorn_settings(_none))

    async def serve(connection: socket.socket) -> None:
        stream = await TlsStream.handshake(connection, context)
        origin = Origin("127.0.0.1", 0, certified_peer(stream.certificate))
        wanted = await HttpConnection(requests, stream, origin, LimitedLines(_log)).serve()
        assert wanted is not None
        agent = await accept(stream, wanted.received, "")
        assert agent is not None
        del wanted
        while await agent.receive() is not None:
            pass

    listener.setblocking(False)
    while True:
        connection, _ = await loop.sock_accept(listener)
        tasks.add(asyncio.create_task(serve(connection)))


async def _serve_uvicorn(listener: socket.socket, context: ssl.SSLContext) -> None:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        while (await receive())["type"] != "websocket.disconnect":
            pass

    config = uvicorn.Config(
        application,
        http="h11",
        ws="websockets-sansio",
        log_config=None,
        lifespan="off",
        ws_max_queue=1,
        ws_ping_interval=30.0,
        ws_per_message_deflate=False,
    )
    config.load()
    config.ssl = context
    await uvicorn.Server(config).serve([listener])


async def _serve_trimmed(listener: socket.socket, context: ssl.SSLContext) -> None:
    from asyncio import sslproto

    sslproto.SSLProtocol.max_size = _TRIMMED_BYTES
    await _serve_uvicorn(listener, context)


SERVERS: Final = {
    "director": _serve_director,
    "uvicorn": _serve_uvicorn,
    "trimmed": _serve_trimmed,
}


def _resident_bytes(process_id: int) -> int:
    with open(f"/proc/{process_id}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def _connect(port: int, context: ssl.SSLContext, agents: int) -> list[asyncio.StreamWriter]:
    opened: list[asyncio.StreamWriter] = []

    async def one() -> None:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=context, server_hostname="localhost"
        )
        writer.write(_REQUEST)
        answer = await reader.readuntil(b"\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 101 "), answer
        opened.append(writer)

    while (missing := agents - len(opened)) > 0:
        await asyncio.gather(*(one() for _ in range(min(_HANDSHAKES_AT_ONCE, missing))))
    return opened


async def _grown_bytes(process_id: int, port: int, context: ssl.SSLContext, agents: int) -> int:
    # What the first connections load once is none of each.
    opened = await _connect(port, context, _HANDSHAKES_AT_ONCE)
    before = _resident_bytes(process_id)
    opened += await _connect(port, context, agents)
    await asyncio.sleep(1)
    grown = _resident_bytes(process_id) - before
    for one in opened:
        one.transport.abort()
    return grown


def _measure(name: str, folder: str, agents: int) -> int:
    """The bytes that the server's memory grew by for all agents."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
        port, descriptor = listener.getsockname()[1], listener.fileno()
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "strongroom_bench.idle_agents",
                "--serve",
                name,
                folder,
                str(descriptor),
            ],
            pass_fds=[descriptor],
        )
    try:
        context = client_context(Identity.load(f"{folder}/web1"), check_hostname=False)
        return asyncio.run(_grown_bytes(process.pid, port, context, agents))
    finally:
        process.kill()
        process.wait()


def main() -> None:
    """Measure, and print a line for each server."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--agents", type=int, default=1000)
    parser.add_argument("--serve", nargs=3, metavar=("SERVER", "FOLDER", "SOCKET"))
    options = parser.parse_args()
    if options.serve is not None:
        name, folder, descriptor = options.serve
        context = tls_context(Identity.load(f"{folder}/boss"))
        asyncio.run(SERVERS[name](socket.socket(fileno=int(descriptor)), context))
        return
    with tempfile.TemporaryDirectory() as folder:
        authority = Authority.create(f"{folder}/authority", "house")
        authority.issue_identity(f"{folder}/boss", "boss", "director", ("localhost",))
        authority.issue_identity(f"{folder}/web1", "web1", "agent", ())
        for name in SERVERS:
            grown = _measure(name, folder, options.agents)
            each = grown / options.agents / 1024
            sys.stdout.write(f"{name:<9} {each:6.0f} KiB an agent, {grown / 1e6:4.0f} MB in all\n")


if __name__ == "__main__":
    main()
