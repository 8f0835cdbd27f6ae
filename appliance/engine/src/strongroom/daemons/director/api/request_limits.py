"""Limits on the size and time of a request, enforced before any handler sees the body."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping

    Message = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[Message]]
    Send = Callable[[Message], Awaitable[None]]
    Application = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

LARGEST_BODY_BYTES = 1 << 20
BODY_TIMEOUT_SECONDS = 30.0


class BoundedBodies:
    """ASGI middleware: refuses bodies above LARGEST_BODY_BYTES, and those that arrive too late.

    Reads the whole body before it forwards the request: none is large, and a handler then never
    waits for a slow peer.
    """

    def __init__(self, application: Application) -> None:
        self._application = application

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Serve one request."""
        try:
            body = await asyncio.wait_for(_whole_body(receive), BODY_TIMEOUT_SECONDS)
        except TimeoutError:
            await refuse(send, 408, "the request's body did not arrive in time")
            return
        if body is None:
            return
        if len(body) > LARGEST_BODY_BYTES:
            await refuse(send, 413, f"a body has at most {LARGEST_BODY_BYTES} bytes")
            return
        given = False

        async def receive_again() -> Message:
            nonlocal given
            if given:
                return await receive()
            given = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self._application(scope, receive_again, send)


async def _whole_body(receive: Receive) -> bytes | None:
    """The body, truncated soon after it exceeds the limit; None when the peer disconnected."""
    body = bytearray()
    while len(body) <= LARGEST_BODY_BYTES:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    return bytes(body)


async def refuse(send: Send, status: int, reason: str) -> None:
    """Answer with an error that the caller caused, and close the connection."""
    body = json.dumps({"error_id": "usage", "message": reason}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
