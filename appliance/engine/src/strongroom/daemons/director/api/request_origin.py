"""The connection of a request: passed from the server that holds connections to the handlers.

Each open connection has a token of 128 random bits that only this process knows. A request to
uvicorn carries it in TOKEN_HEADER; requests without one at uvicorn's socket are refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from strongroom import clock
from strongroom.daemons.director.api.request_limits import refuse

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from strongroom.daemons.director.api.connection_limits import CertifiedPeer
    from strongroom.daemons.director.api.request_limits import Application, Receive, Send

TOKEN_HEADER: Final = b"strongroom-connection"
_TOKEN_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class RequestOrigin:
    """Where a request came from; `certified`: the peer in its certificate, None without."""

    address: str
    port: int
    certified: CertifiedPeer | None


class Origins:
    """The origins of open connections, by token. For the event loop only."""

    def __init__(self) -> None:
        self._by_token: dict[str, RequestOrigin] = {}

    def add(self, origin: RequestOrigin) -> str:
        """A token for a new connection."""
        token = clock.random_bytes(_TOKEN_BYTES).hex()
        self._by_token[token] = origin
        return token

    def remove(self, token: str) -> None:
        """Remove a closed connection."""
        del self._by_token[token]

    def of(self, token: str) -> RequestOrigin | None:
        """The origin of requests with this token; None for an unknown token."""
        return self._by_token.get(token)


class KnownOrigin:
    """ASGI middleware: puts a request's origin into its scope, and refuses those without one."""

    def __init__(self, application: Application, origins: Origins) -> None:
        self._application = application
        self._origins = origins

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Serve one request."""
        headers = scope["headers"]
        token = b"".join(value for name, value in headers if name == TOKEN_HEADER)
        origin = self._origins.of(token.decode("latin-1"))
        if origin is None:
            await refuse(send, 403, "this socket is the director's own")
            return
        told: dict[str, Any] = {
            **scope,
            "client": (origin.address, origin.port),
            "headers": [one for one in headers if one[0] != TOKEN_HEADER],
            "scheme": "https",
            "state": {**scope.get("state", {}), "certified": origin.certified},
        }
        await self._application(told, receive, send)
