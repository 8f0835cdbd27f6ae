"""Operations that change something: runs, snapshots, the configuration in force, tokens.

The API authorizes callers (it knows the token); every change by an actor is written to the audit
log here, whether it succeeded or not. See `director` for the errors raised.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from strongroom import clock
from strongroom.clock import SECOND_NS
from strongroom.daemons.director.catalog.access import create_token, list_tokens, remove_token
from strongroom.daemons.director.catalog.clients import change_client
from strongroom.daemons.director.catalog.runs import load_run
from strongroom.daemons.director.catalog.snapshots import load_snapshot, note_removed
from strongroom.daemons.director.catalog.tables import GONE
from strongroom.daemons.director.configuration import read_configuration, repository_places
from strongroom.daemons.director.consoles import console_type, missing_resource
from strongroom.daemons.director.joined_clients import (
    removable_file,
    remove_file,
    write_client,
)
from strongroom.daemons.director.restart import log_reload, with_what_stays
from strongroom.daemons.director.results.access import Actor
from strongroom.daemons.director.runs.active_run import ActiveRun, Ending
from strongroom.daemons.director.runs.plan import plan
from strongroom.daemons.director.runs.requests import new_restore, new_run
from strongroom.daemons.director.runs.retention import remove_snapshots, snapshot_info
from strongroom.daemons.director.runs.run_request import RunRequest
from strongroom.daemons.director.snapshots.acceptance import accept_runs
from strongroom.errors import (
    ConfigurationError,
    ConflictError,
    UnknownNameError,
    UsageError,
)
from strongroom.printable import printable

if TYPE_CHECKING:
    from strongroom.daemons.director.agents.messages import Agents
    from strongroom.daemons.director.audit_log import AuditLog, AuditSubjects
    from strongroom.daemons.director.catalog.runs import RunRecord
    from strongroom.daemons.director.catalog.snapshots import SnapshotRecord
    from strongroom.daemons.director.context import DirectorContext
    from strongroom.daemons.director.joined_clients import JoiningClient
    from strongroom.daemons.director.notices.office import NoticeOffice
    from strongroom.daemons.director.results.access import Token
    from strongroom.daemons.director.results.notices import NoticeTest
    from strongroom.daemons.director.results.runs import Run
    from strongroom.daemons.director.results.snapshots import RestoreRequest, Snapshot
    from strongroom.daemons.director.results.status import Reload
    from strongroom.daemons.director.runs.lifecycle import Runs
    from strongroom.daemons.director.runs.plan import JobPlan
    from strongroom.daemons.director.schedule.scheduler import Scheduler
    from strongroom.net.identities.authority import Authority


class Commands:
    """See the module."""

    def __init__(
        self,
        context: DirectorContext,
        runs: Runs,
        scheduler: Scheduler,
        agents: Agents,
        notices: NoticeOffice,
        audit_log: AuditLog,
        configuration_path: str,
    ) -> None:
        self._context = context
        self._runs = runs
        self._scheduler = scheduler
        self._agents = agents
        self._notices = notices
        self._audit_log = audit_log
        self.path = configuration_path
        self._reading = asyncio.Lock()

    async def start_run(self, planned: JobPlan, who: Actor) -> Run:
        """Queue a run of a job with the given overrides."""
        async with self._audit_log.recording(who, "run", planned.job.name) as about:
            about.note(planned.job.name, planned.client)
            record = new_run(planned, requested_by=who.title)
            return (await self._runs.submit(record, [f"asked for by {who.title}"])).info()

    async def start_restore(self, request: RestoreRequest, who: Actor) -> Run:
        """Queue a restore."""
        async with self._audit_log.recording(who, "restore", _restore_text(request)) as about:
            snapshot = await self._snapshot(request.snapshot)
            about.note(request.job, snapshot.client, request.client)
            record = new_restore(self._context.configuration, request, snapshot, who.title)
            about.note(record.job, record.client)
            self._context.repositories.place(record.storage)
            lines = [f"asked for by {who.title}"]
            if record.job in self._context.configuration.jobs:
                lines.append(f"what was not said is as Restore job {record.job} has it")
            return (await self._runs.submit(record, lines)).info()

    async def start_estimate(self, job: str, who: Actor, *, listing: bool = False) -> Run:
        """Let the agent count what a job would back up; the result is the run's summary."""
        async with self._audit_log.recording(who, "estimate", job) as about:
            planned = plan(self._context.configuration, job)
            about.note(job, planned.client)
            record = new_run(planned, requested_by=who.title)
            if record.kind != "backup":
                raise UsageError(f"job {job} is no backup; there is nothing to estimate")
            if not self._context.link.is_connected(record.client):
                raise ConflictError(f"agent {record.client} is not connected")
            record = msgspec.structs.replace(
                record, kind="estimate", request=RunRequest(listing=listing).stored(), deadline_ns=0
            )
            return (await self._runs.submit(record, judged=False)).info()

    async def cancel(self, run_id: str, who: Actor) -> Run:
        """End a run; ConflictError when it has ended."""
        async with self._audit_log.recording(who, "cancel", run_id) as about:
            found = await self._found(run_id, about)
            if not isinstance(found, ActiveRun):
                raise ConflictError(f"run {found.id} has ended: {found.state}")
            await self._runs.stop(found, Ending("cancelled", f"cancelled by {who.title}"))
            return (await self._found(found.record.id, about)).info()

    async def accept(self, run_id: str, who: Actor) -> Run:
        """What a backup that is short of something holds is right; likewise of all after it."""
        async with self._audit_log.recording(who, "accept", run_id) as about:
            found = await self._found(run_id, about)
            if isinstance(found, ActiveRun):
                raise ConflictError(f"run {found.record.id} has not ended")
            if found.kind != "backup":
                raise ConflictError(f"run {found.id} is no backup")
            accepted = await self._context.in_thread(accept_runs, self._context, found, who.title)
            if not accepted:
                raise ConflictError(f"run {found.id} holds as much as usual")
            for record in accepted:
                await self._notices.ended(record)
            return accepted[0].info()

    async def set_bandwidth(self, run_id: str, maximum_bytes_per_second: int, who: Actor) -> Run:
        """Change the bandwidth limit of an active run, 0: no limit; ConflictError if not active.

        The limit stays with the run; a disconnected agent gets it when it reconnects.
        """
        target = f"{run_id} {maximum_bytes_per_second}"
        async with self._audit_log.recording(who, "bandwidth", target) as about:
            if maximum_bytes_per_second < 0:
                raise UsageError("a limit is a number of bytes per second, or 0 for none")
            found = await self._found(run_id, about)
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
        """Remove a snapshot; ConflictError while Minimum Retention keeps it.

        For one that is gone from its repository: say that this was meant.
        """
        async with self._audit_log.recording(who, "forget", snapshot_id) as about:
            record = await self._snapshot(snapshot_id)
            about.note(record.job, record.client)
            if record.removed_reason == GONE:
                # It was meant to go: nobody is to be warned any more.
                await self._context.in_thread(
                    note_removed,
                    self._context.catalog,
                    [record.id],
                    record.removed_ns,
                    f"by {who.title}",
                )
                return snapshot_info(self._context.configuration, await self._snapshot(record.id))
            if record.removed_ns:
                raise ConflictError(f"snapshot {record.id[:8]} was removed already")
            if (obstacle := self._scheduler.guard.obstacle) and not record.false_reason:
                raise ConflictError(obstacle)
            pool = self._context.configuration.pools.get(record.pool)
            removed, _ = await self._context.with_repository(
                remove_snapshots, self._context, [record], pool, f"by {who.title}"
            )
            if not removed:
                raise ConflictError(
                    f"snapshot {record.id[:8]} is kept: by Minimum Retention or protection, or "
                    "it belongs to another client; see the director's log"
                )
            return snapshot_info(self._context.configuration, await self._snapshot(record.id))

    async def reload(self, who: Actor) -> Reload:
        """Reload the configuration; active runs are not disturbed."""
        async with self._audit_log.recording(who, "reload", self.path):
            return await self._read_again()

    async def _read_again(self) -> Reload:
        context = self._context
        async with self._reading:
            loaded, report = await context.in_thread(read_configuration, self.path)
            if loaded is not None:
                context.configuration, context.restart_needed = with_what_stays(
                    context.configuration, loaded.settings
                )
                report = replace(report, restart_needed=context.restart_needed)
                context.resources = loaded.resources
                context.repositories.replace(repository_places(loaded.settings))
                await self._scheduler.reload()
                await self.remove_orphaned_tokens()
                for name in list(context.hellos):
                    if refusal := self._agents.refusal(name):
                        await context.link.disconnect(name, refusal)
                for follow in context.followers:
                    follow()
                await self._runs.dispatch()
            context.reload_errors = report.errors
            log_reload(report)
            return report

    async def test_notices(self, destination: str, who: Actor) -> list[NoticeTest]:
        """Send a test to a destination of notices, "" for all of them."""
        async with self._audit_log.recording(who, "notify", f"test {destination}".strip()):
            return await self._notices.test(destination, who.title)

    async def retry_notices(self, who: Actor) -> int:
        """Try what could not be delivered once more; returns how many messages."""
        async with self._audit_log.recording(who, "notify", "retry"):
            return await self._notices.retry()

    async def add_client(self, joining: JoiningClient) -> None:
        """Write the file of a client that joins a group, and put it in force.

        Raises ConfigurationError, OperatingSystemError; then the client is not there.
        """
        who = Actor(self._context.name, "director")
        target = f"{joining.name} joins group {joining.group}: {joining.file}"
        async with self._audit_log.recording(who, "client", target) as about:
            about.clients.add(joining.name)
            await self._context.in_thread(write_client, joining)
            if not (await self._read_again()).is_loaded:
                # Somebody has just changed another file.
                await self._context.in_thread(remove_file, joining.file)
                raise ConfigurationError("the director's configuration on disk has errors")

    async def remove_client(self, name: str, authority: Authority | None, who: Actor) -> list[str]:
        """End a client: its certificates are revoked, its file is removed, its runs are cancelled.

        Its snapshots stay, as long as Minimum Retention and operators keep them. Returns what was
        done. A second call finishes what was interrupted. Raises UnknownNameError, ConflictError.
        """
        async with self._audit_log.recording(who, "client", f"remove {name}") as about:
            about.clients.add(name)
            call, done = self._context.in_thread, []
            configuration = self._context.configuration
            file = ""
            if name in configuration.clients:
                file = await call(removable_file, configuration, self.path, name)
            if authority is not None:
                done += await call(_revoke, authority, name)
            if file:
                await call(remove_file, file)
                await self._read_again()
                done.append(f"removed {file}")
            for active in self._runs.all_active():
                if name in (active.record.client, active.record.source_client):
                    await self._runs.stop(active, Ending("cancelled", f"client {name} was removed"))
                    done.append(f"cancelled run {active.record.id[:8]} of {active.record.job}")
            await self._context.link.disconnect(name, "this client was removed")
            if not done and name not in configuration.clients:
                raise UnknownNameError(f"there is no client {name!r}, and no certificate of one")
            return done

    async def create_token(
        self, name: str, profile: str, lifetime_seconds: int, who: Actor
    ) -> tuple[Token, str]:
        """A new token, and its text, which is shown only once; lifetime 0: never expires.

        It is bound to the Console or User of its name, where there is one.
        """
        async with self._audit_log.recording(who, "token", f"create {name} {profile}"):
            if lifetime_seconds < 0 or not name:
                raise UsageError("a token needs a name, and a lifetime of 0 or more seconds")
            expires_ns = clock.now_ns() + lifetime_seconds * SECOND_NS if lifetime_seconds else 0
            return await self._context.in_thread(
                create_token,
                self._context.catalog,
                name,
                profile,
                expires_ns,
                console_type(self._context.configuration, name),
            )

    async def withdraw_token(self, token_id: str, who: Actor) -> None:
        """Revoke a token."""
        async with self._audit_log.recording(who, "token", f"withdraw {token_id}"):
            await self._context.in_thread(remove_token, self._context.catalog, token_id)

    async def remove_orphaned_tokens(self) -> None:
        """Revoke tokens whose Console, User or Profile the configuration no longer has.

        For good: another resource of that name must not bring them back to life.
        """
        configuration, catalog = self._context.configuration, self._context.catalog
        us = Actor(self._context.name, "director")
        for token in await self._context.in_thread(list_tokens, catalog):
            if missing := missing_resource(configuration, token):
                with suppress(UnknownNameError):  # it was withdrawn just now
                    await self._context.in_thread(remove_token, catalog, token.id)
                    await self._audit_log.record(
                        us, "token", f"withdraw {token.id}: no {missing} any more"
                    )

    async def note_certificate(self, client: str, serial: str) -> None:
        """An agent was enrolled, or its certificate renewed."""
        catalog = self._context.catalog
        now_ns = clock.now_ns()

        def note() -> None:
            change_client(catalog, client, certificate_serial=serial, enrolled_ns=now_ns)

        await self._context.in_thread(note)

    async def _found(self, beginning: str, about: AuditSubjects) -> ActiveRun | RunRecord:
        """A run by its id or the beginning of it, active or not."""
        record = await self._context.in_thread(load_run, self._context.catalog, beginning)
        about.note(record.job, record.client, record.source_client)
        return self._runs.active(record.id) or record

    async def _snapshot(self, beginning: str) -> SnapshotRecord:
        return await self._context.in_thread(load_snapshot, self._context.catalog, beginning)


def _revoke(authority: Authority, name: str) -> list[str]:
    try:
        revoked = authority.revoke(name, roles=("agent",))
    except UsageError:  # there is no certificate that is still valid
        return []
    return [f"revoked the certificate {one.serial} of {one.role} {name}" for one in revoked]


def _restore_text(request: RestoreRequest) -> str:
    target = "in place" if request.in_place else printable(request.target)
    privileges = " with privileges" if request.keeps_privileges else ""
    return f"{request.snapshot[:16]} to {request.client or 'its client'}: {target}{privileges}"
