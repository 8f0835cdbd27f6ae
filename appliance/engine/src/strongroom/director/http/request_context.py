"""The context of every handler: the director, the caller, and which results it may see."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Annotated, Final

from fastapi import Depends, Request, Response, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.base.errors import NotPermittedError
from strongroom.director.catalog.clients import RecordedKind
from strongroom.director.director import Director
from strongroom.director.http.agent_connections import AgentConnections
from strongroom.director.http.callers import Caller, Callers
from strongroom.director.http.cross_site import OwnNames
from strongroom.director.http.limits import Attempts, ConnectionLimits
from strongroom.director.http.rights import CallerRights
from strongroom.director.results.access import Actor
from strongroom.director.results.runs import Run
from strongroom.director.results.snapshots import Snapshot
from strongroom.director.results.status import OpenIncident
from strongroom.engine.repository.keys.roles import ApplianceKey
from strongroom.net.control.messages import ENDS_HEADER
from strongroom.net.identities.authority import Authority as CertificateAuthority
from strongroom.net.identities.identity import ends_soon

_bearer = HTTPBearer(auto_error=False, description="A token made by `strongroom token create`")


MOST_ENROLMENTS: Final = 4
_MOST_NAMES: Final = 500
_KINDS_OF_ALL: Final = frozenset(("copy", "admin"))


@dataclass(frozen=True, slots=True)
class Enrolling:
    """`keys`: the appliance keys of the repositories whose clients this director enrols."""

    authority: CertificateAuthority
    keys: tuple[ApplianceKey, ...] = ()


@dataclass(frozen=True, slots=True)
class ApiContext:
    """What the handlers of all requests share; `application.state.context`.

    `enrolling` is None where this director has no authority. `refused_joins`: by address, of those
    who show a good token that is for no single name. `joining`: held by who joins. `closing` is set
    when the server stops, which ends streams of events. `enrolment_places`: of tokens that are
    checked at once; the others wait in the order in which they came.
    """

    director: Director
    callers: Callers
    agents: AgentConnections
    enrolling: Enrolling | None
    wrong_enrolments: Attempts
    refused_joins: Attempts
    names: OwnNames
    limits: ConnectionLimits
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    joining: asyncio.Lock = field(default_factory=asyncio.Lock)
    enrolment_places: asyncio.Semaphore = field(
        default_factory=lambda: asyncio.Semaphore(MOST_ENROLMENTS)
    )


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """One request: the shared context, and the caller.

    `identify`: authenticates the caller again, for long requests; raises NotAuthenticatedError,
    NotPermittedError.
    """

    context: ApiContext
    caller: Caller
    identify: Callable[[], Awaitable[Caller]]

    @property
    def director(self) -> Director:
        """The director."""
        return self.context.director

    @property
    def rights(self) -> CallerRights:
        """The rights of the caller."""
        return self.caller.rights

    @property
    def actor(self) -> Actor:
        """The caller, for the audit log."""
        return self.caller.actor

    async def reidentified(self) -> ApiRequest:
        """The same request with the caller's current rights. Raises as `identify`."""
        return replace(self, caller=await self.identify())

    def is_own_restore(self, thing: Run | Snapshot) -> bool:
        """Whether it is a restore that the caller has requested."""
        return (
            isinstance(thing, Run)
            and thing.kind == "restore"
            and thing.requested_by == self.actor.title
        )

    def may_see(self, thing: Run | Snapshot) -> bool:
        """Whether the caller may see the job, clients, FileSet and Pool of a run or snapshot.

        For a restore that the caller has requested the job does not matter. Copy and Admin jobs
        work on the snapshots of all clients, so only those who may see all clients see them.
        """
        if isinstance(thing, Run):
            if thing.kind in _KINDS_OF_ALL and not self.rights.permits_every("client"):
                return False
            if not self.rights.permits("client", thing.source_client):
                return False
        return self.rights.permits_all(
            job="" if self.is_own_restore(thing) else thing.job,
            client=thing.client,
            fileset=thing.fileset,
            pool=thing.pool,
        )

    async def names_in_sight(
        self, recorded_names: Callable[[RecordedKind], Awaitable[list[str]]]
    ) -> tuple[tuple[str, ...] | None, tuple[str, ...] | None]:
        """Clients and jobs that a listing can be narrowed to; see `_names_in_sight`."""
        clients = await self._names_in_sight("client", recorded_names)
        return clients, await self._names_in_sight("job", recorded_names)

    async def _names_in_sight(
        self,
        kind: RecordedKind,
        recorded_names: Callable[[RecordedKind], Awaitable[list[str]]],
    ) -> tuple[str, ...] | None:
        """Names that a listing can be narrowed to, for may_see to judge less; None: not narrowed.

        recorded_names: all that the listing has. Who sees many of them fills a page soon.
        """
        if self.rights.permits_every(kind):
            return None
        names = await recorded_names(kind)
        seen = tuple(name for name in names if self.rights.permits(kind, name))
        return seen if len(seen) <= _MOST_NAMES else None

    def may_know_of_credential(self, kind: str, name: str) -> bool:
        """Whether the caller may see when somebody's certificate or token ends.

        Those of people only who they are of, and who may see all clients.
        """
        is_of_a_person = kind in ("operator", "token")
        return not is_of_a_person or name == self.actor.name or self.rights.permits_every("client")

    def may_know_of(self, problem: OpenIncident) -> bool:
        """Whether the caller may see the job, client and storage that something wrong is about.

        What is about none of them is shown to callers with all rights.
        """
        names = {"job": problem.job, "client": problem.client, "storage": problem.storage}
        return self.rights.is_unlimited or (
            any(names.values()) and self.rights.permits_all(**names)
        )

    def require_sight(self, thing: Run | Snapshot) -> None:
        """Raise NotPermittedError unless the caller may see this run or snapshot."""
        if not self.may_see(thing):
            raise NotPermittedError(
                f"{thing.id[:8]} is of a job, client, FileSet or Pool that is not allowed here"
            )

    async def permitted_run(self, action: str, run_id: str) -> Run:
        """The run that the caller named, to do `action` of COMMANDS with it.

        A caller that may restore may do so with its own restores, unless the Command ACL denies it.
        Raises UnknownNameError, NotPermittedError.
        """
        if not self.rights.permits_command(action, or_by="restore"):
            self.rights.require_command(action)
        run = await self.director.queries.run(run_id)
        if not self.is_own_restore(run):
            self.rights.require_command(action)
        self.require_sight(run)
        return run

    async def visible_snapshot(self, snapshot_id: str) -> Snapshot:
        """The snapshot that the caller named. Raises SnapshotNotFoundError, NotPermittedError."""
        snapshot = await self.director.snapshots.get(snapshot_id)
        self.require_sight(snapshot)
        return snapshot


def address_of(request: Request) -> str:
    """The address that a request came from."""
    return request.client.host if request.client else ""


async def _identified(
    request: Request,
    response: Response,
    shown: Annotated[HTTPAuthorizationCredentials | None, Security(_bearer)],
) -> ApiRequest:
    context: ApiContext = request.app.state.context
    authorization = request.headers.get("authorization", "")
    state, address = request.scope["state"], address_of(request)
    caller = await context.callers.identify(state, address, authorization)
    # For the audit log, if this request is denied.
    request.state.caller = caller
    if caller.token is not None and (token := caller.token).expires_ns:
        warning_seconds = context.director.configuration.director.expiry_warning_seconds
        now_ns = clock.now_ns()
        if ends_soon(token.created_ns, token.expires_ns, now_ns, warning_seconds):
            response.headers[ENDS_HEADER] = str(token.expires_ns // SECOND_NS)

    async def identify() -> Caller:
        return await context.callers.identify(state, address, authorization, is_known=True)

    return ApiRequest(context, caller, identify)


Asked = Annotated[ApiRequest, Depends(_identified)]
