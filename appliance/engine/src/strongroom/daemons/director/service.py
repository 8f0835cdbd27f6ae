"""The director as its API sees it: one object, asked on the event loop, that answers in plain data.

    service = await DirectorService.open("/etc/strongroom", identity)
    service.use_link(connections)                   which needs the service to exist
    await service.start()                           the scheduler begins
    ...
    await service.stop()                            runs on agents go on without us

Who may ask for what is for the API to judge (it knows whose token it is); what an actor changed is
written to the audit log here, whether it worked or not. Every method may raise UnknownNameError
(no such job, client, run, snapshot), UsageError (a value makes no sense), ConflictError (it does
not fit the state of things) and StoreError or DamageError where a repository is read.

All methods belong to one event loop. Catalog and repositories are read in threads.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import msgspec

from strongroom import clock
from strongroom.clock import SECOND_NS
from strongroom.daemons.director.agents.messages import Agents
from strongroom.daemons.director.catalog.access import (
    add_audit,
    create_token,
    find_token,
    list_tokens,
    remove_token,
)
from strongroom.daemons.director.catalog.clients import change_client
from strongroom.daemons.director.catalog.runs import (
    last_runs,
    load_run,
)
from strongroom.daemons.director.configuration import (
    open_context,
    read_configuration,
    repository_places,
)
from strongroom.daemons.director.queries import Looking
from strongroom.daemons.director.repositories.reconciliation import Reconciler
from strongroom.daemons.director.runs.active_run import ActiveRun, Ending
from strongroom.daemons.director.runs.plan import Overrides
from strongroom.daemons.director.runs.requests import new_restore, new_run
from strongroom.daemons.director.runs.retention import remove_snapshots
from strongroom.errors import ConflictError, StrongroomError, UsageError
from strongroom.printable import printable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from strongroom.config.model import ComponentConfiguration
    from strongroom.daemons.director.agents.rejected_reports import Undeliverable
    from strongroom.daemons.director.catalog.runs import RunRecord
    from strongroom.daemons.director.context import AgentLink, DirectorContext
    from strongroom.daemons.director.results import (
        Actor,
        Reload,
        RestoreRequest,
        Run,
        Snapshot,
        Token,
    )
    from strongroom.net.control.messages import Hello, ToDirector
    from strongroom.net.identities.identity import Identity

# When the catalog is compared with the repositories first, and how often.
FIRST_LOOK_SECONDS: Final = 60.0
RECONCILE_SECONDS: Final = 3600.0

_log = logging.getLogger(__name__)


class DirectorService(Looking):
    """The director; see the module."""

    def __init__(self, context: DirectorContext, path: str) -> None:
        """`path`: of the configuration, for `reload`; use `open`."""
        super().__init__(context, path)
        self._path = path
        self._agents = Agents(context, self._runs)
        self._scheduling: asyncio.Task[None] | None = None
        self._reconciling: asyncio.Task[None] | None = None

    @classmethod
    async def open(
        cls, path: str, identity: Identity | None, link: AgentLink | None = None
    ) -> DirectorService:
        """Read the configuration at `path` and open the catalog it names.

        Raises ConfigurationError, UsageError, CatalogError.
        """
        context = await asyncio.to_thread(open_context, path, identity)
        service = cls(context, path)
        if link is not None:
            service.use_link(link)
        return service

    def use_link(self, link: AgentLink) -> None:
        """Talk to agents this way."""
        self._context.link = link

    def use_identity(self, identity: Identity) -> None:
        """Sign with this one from now on: the certificate was renewed."""
        self._context.identity = identity

    async def start(self) -> None:
        """Take up what was left, and begin to follow schedules."""
        await self._runs.resume()
        await self._scheduler.load()
        self._scheduling = asyncio.create_task(self._scheduler.run(), name="scheduler")
        self._reconciling = asyncio.create_task(self._reconcile(), name="reconciliation")

    async def stop(self) -> None:
        """End; agents go on with what they do and report it to the next director."""
        for task in (self._scheduling, self._reconciling):
            if task is not None:
                task.cancel()
                await asyncio.wait((task,))
        await self._runs.shut_down()
        self._browser.close()
        await asyncio.to_thread(self._context.close)

    @property
    def configuration(self) -> ComponentConfiguration:
        """What is in force: resources of the director; `reload` replaces it."""
        return self._context.configuration

    # Agents: what the link tells.

    def refusal(self, name: str) -> str:
        """Why an agent of this name is not welcome (no such Client, disabled), "" if it is."""
        return self._agents.refusal(name)

    async def on_connected(self, client: str, hello: Hello, address: str) -> None:
        """An agent is connected: answer Welcome, settle the runs it names, start what waits."""
        await self._agents.on_connected(client, hello, address)
        await self._run_on_connect(client)

    async def on_message(self, client: str, message: ToDirector) -> None:
        """Keep what an agent reports, then acknowledge it."""
        await self._agents.on_message(client, message)

    async def on_undeliverable(self, client: str, report: Undeliverable, error: Exception) -> None:
        """An agent reports what cannot be decoded: end that run, so that it does not come again."""
        await self._agents.give_up(client, report, error)

    async def on_disconnected(self, client: str) -> None:
        """An agent is gone; its runs go on and are settled when it is back."""
        await self._agents.on_disconnected(client)

    async def note_certificate(self, client: str, serial: str) -> None:
        """An agent was enrolled, or its certificate renewed."""
        catalog = self._context.catalog
        now_ns = clock.now_ns()

        def note() -> None:
            change_client(catalog, client, certificate_serial=serial, enrolled_ns=now_ns)

        await self._context.in_thread(note)

    # Doing.

    async def start_run(
        self,
        job: str,
        who: Actor,
        *,
        level: str = "",
        client: str = "",
        fileset: str = "",
        storage: str = "",
        pool: str = "",
        priority: int = 0,
    ) -> Run:
        """Queue a run of a job; what is empty is as the job says."""
        overrides = Overrides(
            level=level,
            client=client,
            fileset=fileset,
            storage=storage,
            pool=pool,
            priority=priority,
        )
        async with self._audited(who, "run", job):
            record = new_run(self._context.configuration, job, overrides, requested_by=who.title)
            return (await self._runs.submit(record, [f"asked for by {who.title}"])).info()

    async def start_restore(self, request: RestoreRequest, who: Actor) -> Run:
        """Queue a restore."""
        async with self._audited(who, "restore", _restore_text(request)):
            snapshot = await self._snapshot(request.snapshot)
            record = new_restore(self._context.configuration, request, snapshot, who.title)
            self._context.repositories.place(record.storage)
            return (await self._runs.submit(record, [f"asked for by {who.title}"])).info()

    async def start_estimate(self, job: str, who: Actor, *, listing: bool = False) -> Run:
        """Let the agent count what a job would back up; the result is the run's summary."""
        async with self._audited(who, "estimate", job):
            record = new_run(self._context.configuration, job, requested_by=who.title)
            if record.kind != "backup":
                raise UsageError(f"job {job} is no backup; there is nothing to estimate")
            if not self._context.link.is_connected(record.client):
                raise ConflictError(f"agent {record.client} is not connected")
            record = msgspec.structs.replace(
                record, kind="estimate", request={"listing": listing}, deadline_ns=0
            )
            return (await self._runs.submit(record, judged=False)).info()

    async def cancel(self, run_id: str, who: Actor) -> Run:
        """End a run; ConflictError when it has ended."""
        async with self._audited(who, "cancel", run_id):
            found = await self._found(run_id)
            if not isinstance(found, ActiveRun):
                raise ConflictError(f"run {found.id} has ended: {found.state}")
            await self._runs.stop(found, Ending("cancelled", f"cancelled by {who.title}"))
            return await self.run(found.record.id)

    async def set_bandwidth(self, run_id: str, maximum_bytes_per_second: int, who: Actor) -> Run:
        """Change what a run under way may send, 0: no limit; ConflictError if it does not run.

        The limit stays with the run; an agent that is away is told when it is back.
        """
        async with self._audited(who, "bandwidth", f"{run_id} {maximum_bytes_per_second}"):
            if maximum_bytes_per_second < 0:
                raise UsageError("a limit is a number of bytes per second, or 0 for none")
            found = await self._found(run_id)
            if not isinstance(found, ActiveRun) or not (found.is_running and found.is_remote):
                raise ConflictError(f"run {run_id} does not run on an agent now")
            limit = "no limit"
            if maximum_bytes_per_second:
                limit = f"a limit of {maximum_bytes_per_second} bytes per second"
            await self._runs.set_limit(
                found, maximum_bytes_per_second, f"{limit} from now on, by {who.title}"
            )
            return found.info()

    async def forget_snapshot(self, snapshot_id: str, who: Actor) -> Snapshot:
        """Remove a snapshot; ConflictError while Minimum Retention keeps it."""
        async with self._audited(who, "forget", snapshot_id):
            record = await self._snapshot(snapshot_id)
            if record.removed_ns:
                raise ConflictError(f"snapshot {record.id[:8]} was removed already")
            if obstacle := self._scheduler.guard.obstacle:
                raise ConflictError(obstacle)
            pool = self._context.configuration.find("Pool", record.pool)
            removed, _ = await self._context.with_repository(
                remove_snapshots, self._context, [record], pool, f"by {who.title}"
            )
            if not removed:
                raise ConflictError(
                    f"snapshot {record.id[:8]} is kept: by Minimum Retention or protection, or "
                    "it is of another client, which the director's log says"
                )
            return await self.snapshot(record.id)

    async def reload(self, who: Actor) -> Reload:
        """Read the configuration again; runs under way are not disturbed."""
        async with self._audited(who, "reload", self._path):
            loaded, report = await self._context.in_thread(read_configuration, self._path)
            if loaded is not None:
                self._context.configuration = loaded
                self._context.repositories.replace(repository_places(loaded))
                await self._scheduler.reload()
                for name in list(self._context.hellos):
                    if refusal := self.refusal(name):
                        await self._context.link.disconnect(name, refusal)
                await self._runs.dispatch()
            return report

    # Tokens of the API.

    async def create_token(
        self, name: str, profile: str, lifetime_seconds: int, who: Actor
    ) -> tuple[Token, str]:
        """A new token, and its text, which nobody sees again; lifetime 0: it never expires."""
        async with self._audited(who, "token", f"create {name} {profile}"):
            if lifetime_seconds < 0 or not name:
                raise UsageError("a token needs a name, and a lifetime of 0 or more seconds")
            expires_ns = clock.now_ns() + lifetime_seconds * SECOND_NS if lifetime_seconds else 0
            return await self._context.in_thread(
                create_token, self._context.catalog, name, profile, expires_ns
            )

    async def tokens(self) -> list[Token]:
        """All tokens, without their texts."""
        return await self._context.in_thread(list_tokens, self._context.catalog)

    async def token_of(self, text: str) -> Token | None:
        """The token of this text, unless it has expired or was withdrawn."""
        return await self._context.in_thread(find_token, self._context.catalog, text)

    async def withdraw_token(self, token_id: str, who: Actor) -> None:
        """End a token."""
        async with self._audited(who, "token", f"withdraw {token_id}"):
            await self._context.in_thread(remove_token, self._context.catalog, token_id)

    async def audit(self, who: Actor, action: str, target: str, result: str = "done") -> None:
        """Note what an actor did, or tried, that none of the methods above did for it."""
        await self._context.in_thread(add_audit, self._context.catalog, who, action, target, result)

    # Within.

    async def _reconcile(self) -> None:
        """See now and then what others did to the repositories."""
        context = self._context
        reconciler = Reconciler(context)
        await asyncio.sleep(FIRST_LOOK_SECONDS)
        while True:
            for storage in context.repositories.names:
                try:
                    await context.with_repository(reconciler.reconcile, storage)
                except (StrongroomError, OSError) as error:
                    _log.warning("the repository of %s cannot be looked at: %s", storage, error)
                except Exception:  # noqa: BLE001 - it is to go on
                    _log.exception("the catalog cannot be compared with storage %s", storage)
            await asyncio.sleep(RECONCILE_SECONDS)

    async def _found(self, beginning: str) -> ActiveRun | RunRecord:
        """A run by its id or the beginning of it, active or not."""
        record = await self._context.in_thread(load_run, self._context.catalog, beginning)
        return self._runs.active(record.id) or record

    async def _run_on_connect(self, client: str) -> None:
        """Start jobs that run when their client connects and have not run for long enough."""
        context = self._context
        for job in context.configuration.of_type("Job").values():
            interval = int(job.run_on_incoming_connect_interval_seconds or 0)
            if not interval or not job.enabled or job.client is None or job.client.name != client:
                continue
            last = await context.in_thread(last_runs, context.catalog)
            run = last.get(job.name)
            if run is not None and (
                not run.is_final
                or (run.went_well and clock.now_ns() - run.scheduled_ns < interval * SECOND_NS)
            ):
                continue
            try:
                record = new_run(context.configuration, job.name, requested_by="connection")
            except StrongroomError as error:
                _log.warning("job %s cannot be started: %s", job.name, error)
                continue
            await self._runs.submit(record, ["its client has connected"])

    @asynccontextmanager
    async def _audited(self, who: Actor, action: str, target: str) -> AsyncIterator[None]:
        try:
            yield
        except StrongroomError as error:
            await self.audit(who, action, target, error.error_id)
            raise
        await self.audit(who, action, target)


def _restore_text(request: RestoreRequest) -> str:
    target = "in place" if request.in_place else printable(request.target)
    return f"{request.snapshot[:16]} to {request.client or 'its client'}: {target}"
