"""The application that uvicorn serves: REST under /api/v1, /metrics, and the web page.

Errors are an HTTP status and `{"error_id": ..., "message": ...}`. Denials are written to the audit
log with the caller; internal errors are logged with a traceback and returned to the caller without
one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, MutableMapping
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from strongroom import __version__
from strongroom.base import errors
from strongroom.director.director import Director
from strongroom.director.http import administration, enrolment, runs, snapshots, status
from strongroom.director.http.bodies import Failure
from strongroom.director.http.cross_site import OWN_REQUESTS_ONLY, describe
from strongroom.director.http.limits import Application, BoundedBodies, Receive, Send
from strongroom.director.http.request_context import ApiContext
from strongroom.director.results.access import Actor

API = "/api/v1"
_OF_THE_API = "/api/"
_METRICS = "/metrics"

_DESCRIPTION = """\
The director of Strongroom: jobs, runs, clients, snapshots and restores.

Present a client certificate of the appliance's authority, or a bearer token. What a caller may see
and do is defined by its Console, User and Profile resources. What changes something, and streams,
need the header `Strongroom-Request`; requests that a browser makes for pages of other sites are
refused. Errors are objects with `error_id`, which is stable between releases, and `message`.
"""


def rest_application(context: ApiContext, pages: Application | None = None) -> Application:
    """The ASGI application for all requests except agents' WebSockets.

    pages: answers what is not a path of the API; None: that is not found.
    """
    api = fastapi_application(context)
    return BoundedBodies(api if pages is None else _ByPath(api, pages))


class _ByPath:
    """ASGI: requests for paths of the API go to `api`, all others to `pages`."""

    def __init__(self, api: Application, pages: Application) -> None:
        self._api = api
        self._pages = pages

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Serve one request."""
        path = scope["path"]
        is_api = path == _METRICS or f"{path}/".startswith(_OF_THE_API)
        await (self._api if is_api else self._pages)(scope, receive, send)


def fastapi_application(context: ApiContext) -> FastAPI:
    """The routes and their common settings."""
    api = FastAPI(
        title="Strongroom director",
        version=__version__,
        description=_DESCRIPTION,
        openapi_url=f"{API}/openapi.json",
        docs_url=None,  # those pages load scripts from other sites
        redoc_url=None,
        redirect_slashes=False,
        responses=RESPONSES,
        dependencies=[OWN_REQUESTS_ONLY],
    )
    api.state.context = context
    under = APIRouter(prefix=API)
    for router in (
        status.router,
        runs.router,
        snapshots.router,
        administration.notices_router,
        administration.router,
        enrolment.router,
    ):
        under.include_router(router)
    api.include_router(under)
    api.include_router(status.metrics_router)
    add_failure_handlers(api, context.director, _answer, with_whole_places=True)
    api.add_exception_handler(HTTPException, _of_http)
    describe(api)
    return api


_log = logging.getLogger(__name__)

# The nearest ancestor class of an error decides; other errors are bugs of the director.
STATUS: dict[type[errors.StrongroomError], int] = {
    errors.UsageError: 422,
    errors.UnknownNameError: 404,
    errors.SnapshotNotFoundError: 404,
    errors.PathNotFoundError: 404,
    errors.SourceError: 404,
    errors.ConflictError: 409,
    errors.FalseSnapshotError: 409,
    errors.NotAuthenticatedError: 401,
    errors.NotPermittedError: 403,
    errors.PeerRefusedError: 403,
    errors.TooManyAttemptsError: 429,
    errors.ConfigurationError: 409,
    errors.CatalogUnavailableError: 503,
    errors.StoreError: 503,
    errors.RepositoryNotFoundError: 503,
}
# Possible errors of every route, for OpenAPI.
RESPONSES: dict[int | str, dict[str, object]] = {
    401: {"model": Failure, "description": "No valid token or certificate was shown"},
    403: {"model": Failure, "description": "The caller may not do this"},
    404: {"model": Failure, "description": "The named object does not exist"},
    408: {"model": Failure, "description": "The body did not arrive in time"},
    409: {"model": Failure, "description": "The request conflicts with the current state"},
    413: {"model": Failure, "description": "The body is too large"},
    422: {"model": Failure, "description": "A value is invalid"},
    429: {"model": Failure, "description": "Too many failed attempts"},
    503: {"model": Failure, "description": "A repository or the catalog cannot be read now"},
}
_HTTP_IDS = {404: "unknown-name"}


# A failed request, its status, the id of the error and a message -> the answer.
FailureAnswer = Callable[[Request, int, str, str], Response]


def add_failure_handlers(
    application: FastAPI, director: Director, answer: FailureAnswer, *, with_whole_places: bool
) -> None:
    """Register the handlers for errors with `application`, except for those of HTTP.

    with_whole_places: an invalid value is named with all parts of its place, not the last alone.
    """

    async def error_response(request: Request, error: Exception) -> Response:
        assert isinstance(error, errors.StrongroomError)
        status = _status_of(error)
        if status == 403:
            await _note_denial(director, request, error)
        elif status == 500:
            _log.error("%s %s: %s", request.method, request.url.path, error)
        return answer(request, status, error.error_id, str(error))

    async def misread(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        faults = []
        for one in error.errors()[:5]:
            place = one["loc"] if with_whole_places else one["loc"][-1:]
            faults.append(f"{'.'.join(map(str, place))}: {one['msg']}")
        return answer(request, 422, errors.UsageError.error_id, "; ".join(faults))

    async def fault(request: Request, error: Exception) -> Response:
        _log.error("%s %s: a fault of ours", request.method, request.url.path, exc_info=error)
        return answer(request, 500, "bug", "an internal error of the director; see its log")

    application.add_exception_handler(errors.StrongroomError, error_response)
    application.add_exception_handler(RequestValidationError, misread)
    application.add_exception_handler(Exception, fault)


async def _of_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    error_id = _HTTP_IDS.get(error.status_code, "usage")
    # A body that cannot be parsed counts as an invalid value too.
    status = 422 if error.status_code == 400 else error.status_code
    answer = _answer(request, status, error_id, f"{request.url.path}: {error.detail}")
    answer.headers.update(error.headers or {})
    return answer


def _status_of(error: errors.StrongroomError) -> int:
    """The HTTP status for an error."""
    return next((STATUS[kind] for kind in type(error).__mro__ if kind in STATUS), 500)


def _answer(_: Request, status: int, error_id: str, message: str) -> Response:
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None
    return JSONResponse({"error_id": error_id, "message": encodable(message)}, status, headers)


def encodable(message: str) -> str:
    """A message as it can be sent: a name in it may contain any text from the request."""
    return message.encode("utf-8", "backslashreplace").decode("utf-8")


async def _note_denial(director: Director, request: Request, error: errors.StrongroomError) -> None:
    """Write to the audit log that somebody may not do what was asked for."""
    caller = getattr(request.state, "caller", None)
    address = request.client.host if request.client else ""
    certified = getattr(request.state, "certified", None)
    if caller is not None:
        actor = caller.actor
    elif certified is not None:
        actor = Actor(certified.peer.name, certified.peer.role, address)
    else:
        actor = Actor("", "", address)
    target = f"{request.method} {request.url.path}"
    await director.audit_log.record(actor, "denied", target, error.error_id)
