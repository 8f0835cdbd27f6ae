"""What every handler has at hand: the service, who asks, and which of its results that one sees."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

from fastapi import Depends, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from strongroom.errors import NotPermittedError

if TYPE_CHECKING:
    from strongroom.daemons.director.api.agent_connections import AgentConnections
    from strongroom.daemons.director.api.attempts import Attempts
    from strongroom.daemons.director.api.callers import Caller, Callers
    from strongroom.daemons.director.api.enrolment import Enrolling
    from strongroom.daemons.director.api.rights import Rights
    from strongroom.daemons.director.results import Actor, RunInfo, SnapshotInfo
    from strongroom.daemons.director.service import DirectorService

_bearer = HTTPBearer(auto_error=False, description="A token made by `strongroom token create`")


@dataclass(frozen=True, slots=True)
class Door:
    """What the application is made of; `application.state.door`.

    `enrolling` is None where this director holds no authority. `closing` is set when the server
    stops, which ends streams of events.
    """

    service: DirectorService
    callers: Callers
    agents: AgentConnections
    enrolling: Enrolling | None
    wrong_enrolments: Attempts
    closing: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(frozen=True, slots=True)
class Asking:
    """One request: the door it came through and who asks."""

    door: Door
    caller: Caller

    @property
    def service(self) -> DirectorService:
        """The director."""
        return self.door.service

    @property
    def rights(self) -> Rights:
        """What the caller may."""
        return self.caller.rights

    @property
    def actor(self) -> Actor:
        """Who asks, for the audit log."""
        return self.caller.actor

    def may_see(self, thing: RunInfo | SnapshotInfo) -> bool:
        """Whether a run or snapshot is of a job, client, FileSet and Pool that one may see."""
        return self.rights.permits_all(
            job=thing.job, client=thing.client, fileset=thing.fileset, pool=thing.pool
        )

    def require_sight(self, thing: RunInfo | SnapshotInfo) -> None:
        """Raise NotPermittedError unless the caller may see this run or snapshot."""
        if not self.may_see(thing):
            raise NotPermittedError(
                f"{thing.id[:8]} is of a job, client, FileSet or Pool that is not allowed here"
            )

    async def visible_run(self, run_id: str) -> RunInfo:
        """The run that the caller named. Raises UnknownNameError, NotPermittedError."""
        run = await self.service.run(run_id)
        self.require_sight(run)
        return run

    async def visible_snapshot(self, snapshot_id: str) -> SnapshotInfo:
        """The snapshot that the caller named. Raises SnapshotNotFoundError, NotPermittedError."""
        snapshot = await self.service.snapshot(snapshot_id)
        self.require_sight(snapshot)
        return snapshot


def address_of(request: Request) -> str:
    """The address that a request came from."""
    return request.client.host if request.client else ""


async def _asking(
    request: Request,
    shown: Annotated[HTTPAuthorizationCredentials | None, Security(_bearer)],
) -> Asking:
    door: Door = request.app.state.door
    authorization = request.headers.get("authorization", "")
    caller = await door.callers.identify(request.scope["state"], address_of(request), authorization)
    # For the audit log, should this request be denied.
    request.state.caller = caller
    return Asking(door, caller)


Asked = Annotated[Asking, Depends(_asking)]
