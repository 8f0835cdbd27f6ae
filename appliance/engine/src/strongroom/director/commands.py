"""Operations that change something: runs, snapshots, the configuration in force, tokens.

The API authorizes callers (it knows the token); every change by an actor is written to the audit
log here, whether it succeeded or not. See `director` for the errors raised.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace

from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.base.errors import (
    ConfigurationError,
    ConflictError,
    UnknownNameError,
    UsageError,
)
from strongroom.base.printable import printable
from strongroom.director.audit_log import AuditLog, AuditSubjects
from strongroom.director.catalog.access import create_token, list_tokens, remove_token
from strongroom.director.catalog.clients import change_client
from strongroom.director.catalog.runs import load_run
from strongroom.director.catalog.snapshots import load_snapshot, note_removed
from strongroom.director.catalog.tables import GONE
from strongroom.director.configuration import (
    log_reload,
    read_configuration,
    repository_places,
    with_what_stays,
)
from strongroom.director.context import DirectorContext
from strongroom.director.enrolled_clients import (
    JoiningClient,
    removable_file,
    remove_file,
    write_client,
)
from strongroom.director.notices.notice_service import NoticeService
from strongroom.director.results.access import Actor, Token, console_type, missing_resource
from strongroom.director.results.runs import Run
from strongroom.director.results.snapshots import RestoreRequest, Snapshot
from strongroom.director.results.status import NoticeTest, Reload
from strongroom.director.runs.active_run import ActiveRun, Ending
from strongroom.director.runs.agents import Agents
from strongroom.director.runs.lifecycle import Runs
from strongroom.director.runs.requests import (
    RunRequest,
    new_restore,
    plan,
    require_complete,
)
from strongroom.director.runs.retention import remove_snapshots, with_time_kept
from strongroom.director.schedule.scheduler import Scheduler
from strongroom.director.snapshots.shortfalls import accept_runs
from strongroom.net.identities.authority import Authority


class Commands:
    """Changes that callers ask for; each is audited."""

    def __init__(
        self,
        context: DirectorContext,
        runs: Runs,
        scheduler: Scheduler,
        agents: Agents,
        notices: NoticeService,
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

    async def start_run(self, planned: Run, who: Actor) -> Run:
        """Queue a run that was planned for the caller."""
        async with self._audit_log.recording(who, "run", planned.job) as about:
            about.note(planned.job, planned.client)
            require_complete(self._context.configuration, planned)
            record = replace(planned, requested_by=who.title)
            return await self._runs.submit(record, [f"requested by {who.title}"])

    async def start_restore(self, request: RestoreRequest, who: Actor) -> Run:
        """Queue a restore."""
        async with self._audit_log.recording(who, "restore", _restore_text(request)) as about:
            snapshot = await self._snapshot(request.snapshot)
            about.note(request.job, snapshot.client, request.client)
            record = new_restore(self._context.configuration, request, snapshot, who.title)
            about.note(record.job, record.client)
            self._context.repositories.place(record.storage)
            lines = [f"requested by {who.title}"]
            if record.job in self._context.configuration.jobs:
                lines.append(f"other options as in Restore job {record.job}")
            return await self._runs.submit(record, lines)

    async def start_estimate(self, job: str, who: Actor, *, listing: bool = False) -> Run:
        """Let the agent count what a job would back up; the result is the run's summary."""
        async with self._audit_log.recording(who, "estimate", job) as about:
            record = plan(self._context.configuration, job, requested_by=who.title)
            about.note(job, record.client)
            require_complete(self._context.configuration, record)
            if record.kind != "backup":
                raise UsageError(f"job {job} is not a backup; there is nothing to estimate")
            if not self._context.link.is_connected(record.client):
                raise ConflictError(f"agent {record.client} is not connected")
            record = replace(
                record, kind="estimate", request=RunRequest(listing=listing).stored(), deadline_ns=0
            )
            return await self._runs.submit(record, judged=False)

    async def cancel(self, run_id: str, who: Actor) -> Run:
        """End a run; ConflictError when it has ended."""
        async with self._audit_log.recording(who, "cancel", run_id) as about:
            found = await self._found(run_id, about)
            if not isinstance(found, ActiveRun):
                raise ConflictError(f"run {found.id} has ended: {found.state}")
            await self._runs.stop(found, Ending("cancelled", f"cancelled by {who.title}"))
            now = await self._found(found.record.id, about)
            return now.info() if isinstance(now, ActiveRun) else now

    async def accept(self, run_id: str, who: Actor) -> Run:
        """What a backup that is short of something holds is right; likewise of all after it."""
        async with self._audit_log.recording(who, "accept", run_id) as about:
            found = await self._found(run_id, about)
            if isinstance(found, ActiveRun):
                raise ConflictError(f"run {found.record.id} has not ended")
            if found.kind != "backup":
                raise ConflictError(f"run {found.id} is not a backup")
            accepted = await self._context.in_thread(accept_runs, self._context, found, who.title)
            if not accepted:
                raise ConflictError(f"run {found.id} is not smaller than usual")
            for record in accepted:
                await self._notices.ended(record)
            return accepted[0]

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

        For one that is missing from its repository: say that this was meant.
        """
        async with self._audit_log.recording(who, "forget", snapshot_id) as about:
            record = await self._snapshot(snapshot_id)
            about.note(record.job, record.client)
            if record.removed_reason == GONE:
                # It was meant to go: no one is to be warned any more.
                await self._context.ask(
                    note_removed,
                    [record.id],
                    record.removed_ns,
                    f"by {who.title}",
                )
                return with_time_kept(self._context.configuration, await self._snapshot(record.id))
            if record.removed_ns:
                raise ConflictError(f"snapshot {record.id[:8]} was removed already")
            if (obstacle := self._context.guard.obstacle) and not record.false_reason:
                raise ConflictError(obstacle)
            pool = self._context.configuration.pools.get(record.pool)
            removed, _ = await self._context.with_repository(
                remove_snapshots, self._context, [record], pool, f"by {who.title}"
            )
            if not removed:
                raise ConflictError(
                    f"snapshot {record.id[:8]} cannot be removed: Minimum Retention or protection "
                    "keeps it, or it belongs to another client; see the director's log"
                )
            return with_time_kept(self._context.configuration, await self._snapshot(record.id))

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
            for active in self._runs.active.all():
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
            return await self._context.ask(
                create_token,
                name,
                profile,
                expires_ns,
                console_type(self._context.configuration, name),
            )

    async def withdraw_token(self, token_id: str, who: Actor) -> None:
        """Revoke a token."""
        async with self._audit_log.recording(who, "token", f"withdraw {token_id}"):
            await self._context.ask(remove_token, token_id)

    async def remove_orphaned_tokens(self) -> None:
        """Revoke tokens whose Console, User or Profile the configuration no longer has.

        For good: another resource of that name must not bring them back to life.
        """
        configuration = self._context.configuration
        us = Actor(self._context.name, "director")
        for token in await self._context.ask(list_tokens):
            if missing := missing_resource(configuration, token):
                with suppress(UnknownNameError):  # it was withdrawn just now
                    await self._context.ask(remove_token, token.id)
                    await self._audit_log.record(
                        us, "token", f"withdraw {token.id}: no {missing} any more"
                    )

    async def note_certificate(self, client: str, serial: str) -> None:
        """An agent was enrolled, or its certificate renewed."""
        changes = {"certificate_serial": serial, "enrolled_ns": clock.now_ns()}
        await self._context.ask(change_client, client, **changes)

    async def _found(self, beginning: str, about: AuditSubjects) -> ActiveRun | Run:
        """A run by its id or the beginning of it, active or not."""
        record = await self._context.ask(load_run, beginning)
        about.note(record.job, record.client, record.source_client)
        return self._runs.active.get(record.id) or record

    async def _snapshot(self, beginning: str) -> Snapshot:
        return await self._context.ask(load_snapshot, beginning)


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
