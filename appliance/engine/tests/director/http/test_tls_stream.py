"""The connections of the API, at their ends."""

from __future__ import annotations

import asyncio
import socket
import ssl

from kit.director_in_process import in_loop
from kit.openssl_errors import leave_an_error
from strongroom.director.http.tls_stream import TlsStream
from strongroom.net.channels.tls_contexts import client_context, server_context


@in_loop
async def test_a_connection_that_was_aborted_is_closed_without_an_error():
    """An agent has connected again while its old connection was being ended."""
    ours, theirs = socket.socketpair()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    wrapped = context.wrap_socket(ours, server_side=True, do_handshake_on_connect=False)
    stream = TlsStream(wrapped)
    stream.abort()
    await stream.close(linger_seconds=1.0)
    theirs.close()


@in_loop
async def test_a_connection_that_broke_ends_no_other(house):
    """All connections of the director are used by one thread, and so have one queue of errors."""
    ours, theirs = socket.socketpair()
    for one in (ours, theirs):
        one.setblocking(False)
    leave_an_error()
    accepted = asyncio.create_task(TlsStream.handshake(theirs, server_context(house.storage)))
    client = await TlsStream.handshake(
        ours, client_context(house.agent, check_hostname=False), server_side=False
    )
    server = await accepted
    answer = asyncio.create_task(client.receive())
    await asyncio.sleep(0)
    leave_an_error()
    await server.send(b"later")
    assert await answer == b"later"
    answer = asyncio.create_task(server.receive())
    leave_an_error()
    await asyncio.sleep(0.1)
    await client.send(bytes(1000))
    assert len(await answer) == 1000
    client.abort()
    server.abort()
