"""The application that uvicorn serves: REST under /api/v1, /metrics, and the web page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter, FastAPI

from strongroom import __version__
from strongroom.daemons.director.api.cross_site import OWN_REQUESTS_ONLY, describe
from strongroom.daemons.director.api.error_responses import RESPONSES, add_failure_handlers
from strongroom.daemons.director.api.request_limits import BoundedBodies
from strongroom.daemons.director.api.routes import (
    admin,
    enrolment,
    metrics,
    notices,
    runs,
    snapshots,
    status,
)

if TYPE_CHECKING:
    from collections.abc import MutableMapping
    from typing import Any

    from strongroom.daemons.director.api.request_context import ApiContext
    from strongroom.daemons.director.api.request_limits import Application, Receive, Send

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

    pages: answers what is no path of the API; None: that is not found.
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
    for one in (status, runs, snapshots, notices, admin, enrolment):
        under.include_router(one.router)
    api.include_router(under)
    api.include_router(metrics.router)
    add_failure_handlers(api, context.director)
    describe(api)
    return api
