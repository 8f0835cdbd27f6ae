"""Errors as the API returns them: an HTTP status, and `{"error_id": ..., "message": ...}`.

Denials are written to the audit log with the caller; internal errors are logged with a traceback
and returned to the caller without one.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from strongroom import errors
from strongroom.daemons.director.api.models.responses import Failure
from strongroom.daemons.director.results.access import Actor

if TYPE_CHECKING:
    from fastapi import FastAPI, Request

    from strongroom.daemons.director.director import Director

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


def add_failure_handlers(application: FastAPI, director: Director) -> None:
    """Register the handlers for errors with `application`."""

    async def told(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, errors.StrongroomError)
        status = status_of(error)
        if status == 403:
            await note_denial(director, request, error)
        elif status == 500:
            _log.error("%s %s: %s", request.method, request.url.path, error)
        return _answer(status, error.error_id, str(error))

    async def misread(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        faults = [
            f"{'.'.join(str(part) for part in fault['loc'])}: {fault['msg']}"
            for fault in error.errors()[:5]
        ]
        return _answer(422, errors.UsageError.error_id, "; ".join(faults))

    async def of_http(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        error_id = _HTTP_IDS.get(error.status_code, "usage")
        # A body that cannot be parsed counts as an invalid value too.
        status = 422 if error.status_code == 400 else error.status_code
        answer = _answer(status, error_id, f"{request.url.path}: {error.detail}")
        answer.headers.update(error.headers or {})
        return answer

    async def fault(request: Request, error: Exception) -> JSONResponse:
        _log.error(
            "%s %s: a fault of ours", request.method, request.url.path, exc_info=error
        )  # fmt: skip
        return _answer(500, "bug", "an internal error of the director; see its log")

    application.add_exception_handler(errors.StrongroomError, told)
    application.add_exception_handler(RequestValidationError, misread)
    application.add_exception_handler(HTTPException, of_http)
    application.add_exception_handler(Exception, fault)


def status_of(error: errors.StrongroomError) -> int:
    """The HTTP status for an error."""
    return next((STATUS[kind] for kind in type(error).__mro__ if kind in STATUS), 500)


def _answer(status: int, error_id: str, message: str) -> JSONResponse:
    # A name in a message may contain any text from the request.
    clean = message.encode("utf-8", "backslashreplace").decode("utf-8")
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None
    return JSONResponse({"error_id": error_id, "message": clean}, status, headers)


async def note_denial(director: Director, request: Request, error: errors.StrongroomError) -> None:
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
