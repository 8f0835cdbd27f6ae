"""The web page as an ASGI application, for all that is not a path of the API.

Every answer forbids a browser to run or show anything that is not ours, to put the page into a
frame, and to keep it. Errors are pages too: without a caller the login, for a link of another site
a page that leads on. Static files (styles, scripts, the icon) tell nothing, so they need no caller.
"""

from __future__ import annotations

import logging
from collections.abc import MutableMapping
from typing import Any, Final
from urllib.parse import quote

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from strongroom.base.errors import UnknownNameError
from strongroom.director.http.application import add_failure_handlers, encodable
from strongroom.director.http.cross_site import OWN_REQUESTS_ONLY
from strongroom.director.http.limits import Application, Receive, Send
from strongroom.director.http.request_context import ApiContext
from strongroom.director.web import (
    administration,
    clients,
    overview,
    restore,
    runs,
    sessions,
    snapshots,
)
from strongroom.director.web.rendering import bare_page, static_files
from strongroom.director.web.sessions import COOKIE, Sessions

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-frame-options", b"DENY"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
)

_log = logging.getLogger(__name__)

static_router = APIRouter()
ROUTERS: Final = (
    *(
        one.router
        for one in (overview, clients, runs, snapshots, restore, administration, sessions)
    ),
    static_router,
)


def web_pages(context: ApiContext) -> Application:
    """The ASGI application of the web page."""
    return _WithHeaders(web_application(context))


def web_application(context: ApiContext) -> FastAPI:
    """Its routes; each refuses requests of other sites as the API's do."""
    pages = FastAPI(
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        dependencies=[OWN_REQUESTS_ONLY],
    )
    pages.state.context = context
    pages.state.sessions = Sessions()
    for one in ROUTERS:
        pages.include_router(one)
    add_failure_handlers(pages, context.director, _answer, with_whole_places=False)
    pages.add_exception_handler(HTTPException, _of_http)
    return pages


class _WithHeaders:
    """ASGI middleware: adds _HEADERS to every answer."""

    def __init__(self, application: Application) -> None:
        self._application = application

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Serve one request."""

        async def send_with(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *_HEADERS]
            await send(message)

        await self._application(scope, receive, send_with)


async def _of_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _answer(request, error.status_code, "", f"Page not found: {error.detail}.")


def _own_address(request: Request) -> str:
    """The path that was asked for; whatever it holds, no browser takes it for another site."""
    path = quote(request.url.path.lstrip("/"))
    query = f"?{request.url.query}" if request.url.query else ""
    return f"/{path}{query}"


def _answer(request: Request, status: int, _: str, message: str) -> Response:
    answer = _failure(request, status, encodable(message))
    if status == 401 and COOKIE in request.cookies:
        sessions.forget_cookie(answer)
    return answer


def _failure(request: Request, status: int, message: str) -> Response:
    if request.method not in ("GET", "HEAD"):
        # Our scripts asked, and show it where the reader is.
        return JSONResponse({"message": message}, status)
    if status == 401:
        return bare_page("login.html", status, message=message)
    is_of_a_link = status == 403 and request.headers.get("sec-fetch-mode") == "navigate"
    came_from_elsewhere = request.headers.get("sec-fetch-site") not in ("same-origin", "none")
    if is_of_a_link and came_from_elsewhere:
        return bare_page("elsewhere.html", status, onward=_own_address(request))
    return bare_page("error.html", status, message=message)


@static_router.get("/static/{name}")
async def static(name: str) -> Response:
    """One file."""
    found = static_files().get(name)
    if found is None:
        raise UnknownNameError(f"there is no file {name!r}")
    keep = {"cache-control": "public, max-age=86400"}
    return Response(found.content, media_type=found.media_type, headers=keep)
