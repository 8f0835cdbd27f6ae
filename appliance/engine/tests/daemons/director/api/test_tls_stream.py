"""The connections of the API, at their ends."""

from __future__ import annotations

import asyncio
import socket
import ssl

from strongroom.daemons.director.api.tls_stream import TlsStream


def test_a_connection_that_was_aborted_is_closed_without_an_error():
    """An agent has connected again while its old connection was being ended."""

    async def end_twice():
        ours, theirs = socket.socketpair()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        wrapped = context.wrap_socket(ours, server_side=True, do_handshake_on_connect=False)
        stream = TlsStream(wrapped)
        stream.abort()
        await stream.close(linger_seconds=1.0)
        theirs.close()

    asyncio.run(end_twice())
