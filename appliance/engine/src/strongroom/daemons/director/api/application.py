"""The application that the server serves: REST under /api/v1, /metrics, and agents' WebSockets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, FastAPI

from strongroom import __version__
from strongroom.daemons.director.api.error_responses import RESPONSES, add_failure_handlers
from strongroom.daemons.director.api.request_limits import BoundedBodies
from strongroom.daemons.director.api.routes import (
    admin,
    enrolment,
    metrics,
    runs,
    snapshots,
    status,
)

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from strongroom.daemons.director.api.request_context import Door
    from strongroom.daemons.director.api.request_limits import Receive, Send

API = "/api/v1"
AGENTS_PATH = f"{API}/agents/connect"

_DESCRIPTION = """\
The director of Strongroom: jobs, runs, clients, snapshots and restores.

Show a client certificate of the appliance's authority, or a bearer token. What a caller sees and
may do is what its Console, User and Profile resources allow. Errors are objects with `error_id`,
which stays from release to release, and `message`.
"""


class Application:
    """The ASGI application: WebSockets of agents here, everything else in FastAPI.

    Agents do not pass through FastAPI: its layers would be held in memory for each of thousands.
    """

    def __init__(self, door: Door) -> None:
        self.api = _fastapi(door)
        self._bounded = BoundedBodies(self.api)
        self._agents = door.agents

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Serve one request or WebSocket."""
        if scope["type"] != "websocket":
            await self._bounded(scope, receive, send)
        elif scope["path"] == AGENTS_PATH:
            await self._agents(scope, receive, send)
        else:
            await receive()
            await send({"type": "websocket.close", "code": 4004, "reason": "there is nothing here"})


def _fastapi(door: Door) -> FastAPI:
    api = FastAPI(
        title="Strongroom director",
        version=__version__,
        description=_DESCRIPTION,
        openapi_url=f"{API}/openapi.json",
        docs_url=None,  # those pages load their scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        responses=RESPONSES,
    )
    api.state.door = door
    under = APIRouter(prefix=API)
    for one in (status, runs, snapshots, admin, enrolment):
        under.include_router(one.router)
    api.include_router(under)
    api.include_router(metrics.router)
    add_failure_handlers(api, door.director)
    return api
