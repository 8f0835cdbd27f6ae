"""Sessions of people who logged in with a token.

A session is 256 random bits in a cookie that scripts cannot read and other sites cannot send. It is
of one token, with which it ends, and of one address: IPv6 addresses count by their /64. It ends
LONGEST_NS after the login, and IDLE_NS after its last request. Only digests are kept, in memory: a
restart of the director ends all sessions. For the event loop only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from blake3 import blake3

from strongroom import clock
from strongroom.clock import SECOND_NS
from strongroom.errors import NotAuthenticatedError
from strongroom.net.channels.unauthenticated import network_of

if TYPE_CHECKING:
    from collections.abc import Callable

# A browser takes a cookie of this prefix only from us, over TLS, for this host alone.
COOKIE: Final = "__Host-strongroom"
LONGEST_NS: Final = 12 * 3600 * SECOND_NS
IDLE_NS: Final = 3600 * SECOND_NS
MOST_SESSIONS: Final = 4096
MOST_OF_A_TOKEN: Final = 16
_ID_BYTES: Final = 32
_LONGEST_COOKIE: Final = 200


@dataclass(slots=True)
class _Session:
    token_id: str
    network: str
    begun_ns: int
    used_ns: int


class Sessions:
    """See the module. now_ns: a clock that nobody sets."""

    def __init__(self, now_ns: Callable[[], int] = clock.since_boot_ns) -> None:
        self._now_ns = now_ns
        # The one used longest ago is first.
        self._open: dict[bytes, _Session] = {}

    def begin(self, token_id: str, address: str) -> str:
        """A new session of a token; returns the value of its cookie."""
        mine = [key for key, one in self._open.items() if one.token_id == token_id]
        if len(mine) >= MOST_OF_A_TOKEN:
            del self._open[mine[0]]
        while len(self._open) >= MOST_SESSIONS:
            del self._open[next(iter(self._open))]
        value = clock.random_bytes(_ID_BYTES).hex()
        now_ns = self._now_ns()
        self._open[_key(value)] = _Session(token_id, network_of(address), now_ns, now_ns)
        return value

    def token_id(self, value: str, address: str) -> str:
        """The token of the session with this cookie. Raises NotAuthenticatedError."""
        key = _key(value)
        session = self._open.pop(key, None)
        if session is None:
            raise NotAuthenticatedError("your session has ended; log in again")
        now_ns = self._now_ns()
        if now_ns - session.begun_ns >= LONGEST_NS or now_ns - session.used_ns >= IDLE_NS:
            raise NotAuthenticatedError("your session has expired; log in again")
        if session.network != network_of(address):
            # It ends here: whoever has this cookie may not be who logged in.
            raise NotAuthenticatedError("your session began at another address; log in again")
        session.used_ns = now_ns
        self._open[key] = session
        return session.token_id

    def end(self, value: str) -> None:
        """End a session; one that is not there is none."""
        self._open.pop(_key(value), None)


def _key(value: str) -> bytes:
    return blake3(value[:_LONGEST_COOKIE].encode("utf-8", "surrogatepass")).digest()
