"""The reader of a page: who logged in with a token, else who shows a certificate.

A session is 256 random bits in a cookie that scripts cannot read and other sites cannot send. It is
of one token, with which it ends, and of one address: IPv6 addresses count by their /64. It ends
LONGEST_NS after the login, and IDLE_NS after its last request. Only digests are kept, in memory: a
restart of the director ends all sessions. For the event loop only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Final

from blake3 import blake3
from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import JSONResponse, Response
from pydantic import Field

from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.base.errors import NotAuthenticatedError, TooManyAttemptsError
from strongroom.director.http.bodies import Question
from strongroom.director.http.callers import Caller
from strongroom.director.http.request_context import ApiContext, ApiRequest, address_of
from strongroom.director.results.access import Actor
from strongroom.net.channels.unauthenticated import network_of

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
    """Who is logged in to the web page. now_ns: a clock that no one sets."""

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
            # It ends here: anyone who has this cookie may not be who logged in.
            raise NotAuthenticatedError("your session began at another address; log in again")
        session.used_ns = now_ns
        self._open[key] = session
        return session.token_id

    def end(self, value: str) -> None:
        """End a session; one that is not there is none."""
        self._open.pop(_key(value), None)


def _key(value: str) -> bytes:
    return blake3(value[:_LONGEST_COOKIE].encode("utf-8", "surrogatepass")).digest()


async def _reader(request: Request) -> ApiRequest:
    context: ApiContext = request.app.state.context
    sessions: Sessions = request.app.state.sessions
    cookie = request.cookies.get(COOKIE, "")
    state, address = request.scope["state"], address_of(request)

    async def identify(*, is_known: bool = True) -> Caller:
        if cookie:
            # Anyone who logged in wants to be that one, also with a certificate of more rights.
            return await context.callers.of_session(sessions.token_id(cookie, address), address)
        return await context.callers.identify(state, address, "", is_known=is_known)

    caller = await identify(is_known=False)
    # For the audit log, if this request is denied.
    request.state.caller = caller
    return ApiRequest(context, caller, identify)


Reader = Annotated[ApiRequest, Depends(_reader)]
# A name in the query of a page.
Text = Annotated[str, Query(max_length=128)]


router = APIRouter()


class Login(Question):
    """The token of a login."""

    token: str = Field(min_length=1, max_length=512)


@router.post("/login")
async def login(wanted: Login, request: Request) -> Response:
    """Begin a session; wrong tokens count as those of the API do.

    The session is new whatever cookie comes along, and that one's session ends.
    """
    context: ApiContext = request.app.state.context
    sessions: Sessions = request.app.state.sessions
    address = address_of(request)
    try:
        caller = await context.callers.identify({}, address, f"Bearer {wanted.token}")
    except (NotAuthenticatedError, TooManyAttemptsError) as error:
        nobody = Actor("", "", address)
        await context.director.audit_log.record(nobody, "login", "web page", error.error_id)
        raise
    assert caller.token is not None
    sessions.end(request.cookies.get(COOKIE, ""))
    answer = JSONResponse({"go": ""})
    answer.set_cookie(
        COOKIE,
        sessions.begin(caller.token.id, address),
        path="/",
        secure=True,
        httponly=True,
        samesite="strict",
    )
    await context.director.audit_log.record(caller.actor, "login", "web page")
    return answer


@router.post("/logout")
async def logout(request: Request) -> Response:
    """End the session."""
    sessions: Sessions = request.app.state.sessions
    sessions.end(request.cookies.get(COOKIE, ""))
    answer = JSONResponse({"go": "/"})
    forget_cookie(answer)
    return answer


def forget_cookie(answer: Response) -> None:
    """Let the browser forget its cookie."""
    answer.delete_cookie(COOKIE, path="/", secure=True, httponly=True, samesite="strict")
