"""The web page as an ASGI application, for all that is no path of the API.

Every answer forbids a browser to run or show anything that is not ours, to put the page into a
frame, and to keep it. Errors are pages too: without a caller the login, for a link of another site
a page that leads on.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from strongroom import errors
from strongroom.daemons.director.api.cross_site import OWN_REQUESTS_ONLY
from strongroom.daemons.director.api.error_responses import note_denial, status_of
from strongroom.daemons.director.web.rendering import bare_page
from strongroom.daemons.director.web.routes import (
    audit,
    clients,
    configuration,
    notices,
    overview,
    restore,
    runs,
    schedule,
    session,
    snapshots,
    static,
)
from strongroom.daemons.director.web.sessions import COOKIE, Sessions

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from fastapi import Request

    from strongroom.daemons.director.api.request_context import ApiContext
    from strongroom.daemons.director.api.request_limits import Application, Receive, Send

ROUTERS: Final = tuple(
    one.router
    for one in (
        overview,
        clients,
        runs,
        schedule,
        snapshots,
        restore,
        notices,
        configuration,
        audit,
        session,
        static,
    )
)
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
    _add_error_pages(pages, context)
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


def _add_error_pages(pages: FastAPI, context: ApiContext) -> None:
    async def told(request: Request, error: Exception) -> Response:
        assert isinstance(error, errors.StrongroomError)
        status = status_of(error)
        if status == 403:
            await note_denial(context.director, request, error)
        elif status == 500:
            _log.error("%s %s: %s", request.method, request.url.path, error)
        answer = _answer(request, status, str(error))
        if status == 401 and COOKIE in request.cookies:
            session.forget_cookie(answer)
        return answer

    async def misread(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        faults = [f"{fault['loc'][-1]}: {fault['msg']}" for fault in error.errors()[:5]]
        return _answer(request, 422, "; ".join(faults))

    async def of_http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return _answer(request, error.status_code, f"There is no such page: {error.detail}.")

    async def fault(request: Request, error: Exception) -> Response:
        _log.error("%s %s: a fault of ours", request.method, request.url.path, exc_info=error)
        return _answer(request, 500, "an internal error of the director; see its log")

    pages.add_exception_handler(errors.StrongroomError, told)
    pages.add_exception_handler(RequestValidationError, misread)
    pages.add_exception_handler(HTTPException, of_http)
    pages.add_exception_handler(Exception, fault)


def _own_address(request: Request) -> str:
    """The path that was asked for; whatever it holds, no browser takes it for another site."""
    path = quote(request.url.path.lstrip("/"))
    query = f"?{request.url.query}" if request.url.query else ""
    return f"/{path}{query}"


def _answer(request: Request, status: int, message: str) -> Response:
    # A name in a message may contain any text from the request.
    clean = message.encode("utf-8", "backslashreplace").decode("utf-8")
    if request.method not in ("GET", "HEAD"):
        # Our scripts asked, and show it where the reader is.
        return JSONResponse({"message": clean}, status)
    if status == 401:
        return bare_page("login.html", status, message=clean)
    is_of_a_link = status == 403 and request.headers.get("sec-fetch-mode") == "navigate"
    came_from_elsewhere = request.headers.get("sec-fetch-site") not in ("same-origin", "none")
    if is_of_a_link and came_from_elsewhere:
        return bare_page("elsewhere.html", status, onward=_own_address(request))
    return bare_page("error.html", status, message=clean)
