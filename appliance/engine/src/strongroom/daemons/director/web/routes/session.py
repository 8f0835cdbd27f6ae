"""Login with a token, and logout."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from pydantic import Field

from strongroom.daemons.director.api.models.requests import Question
from strongroom.daemons.director.api.request_context import ApiContext, address_of
from strongroom.daemons.director.results.access import Actor
from strongroom.daemons.director.web.sessions import COOKIE, Sessions
from strongroom.errors import NotAuthenticatedError, TooManyAttemptsError

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
