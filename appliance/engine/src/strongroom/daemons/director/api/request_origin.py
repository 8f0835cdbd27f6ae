"""Which connection a request came on: from the server that holds the connections to the handlers.

Each open connection has a token of 128 random bits that nobody else learns. A request that uvicorn
gets carries it in TOKEN_HEADER; who reaches uvicorn's socket without one is answered nothing.
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
class Origin:
    """Where a request came from; `certified`: whom its certificate names, None without one."""

    address: str
    port: int
    certified: CertifiedPeer | None


class Origins:
    """Of the connections that are open, by token. For the event loop only."""

    def __init__(self) -> None:
        self._by_token: dict[str, Origin] = {}

    def add(self, origin: Origin) -> str:
        """A token for a new connection."""
        token = clock.random_bytes(_TOKEN_BYTES).hex()
        self._by_token[token] = origin
        return token

    def remove(self, token: str) -> None:
        """The connection is closed."""
        del self._by_token[token]

    def of(self, token: str) -> Origin | None:
        """Where requests with this token come from; None when it is not known."""
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
