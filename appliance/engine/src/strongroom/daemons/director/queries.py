"""Read-only operations: status, clients, jobs, runs, tokens, metrics.

Nothing here changes anything. See `director` for the errors raised; `snapshot_queries` has those on
snapshots and their files.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

from strongroom import clock
from strongroom.clock import SECOND_NS
from strongroom.daemons.director.capacity import capacities
from strongroom.daemons.director.catalog.access import (
    find_token,
    find_token_of_id,
    list_audit,
    list_tokens,
)
from strongroom.daemons.director.catalog.clients import ClientRecord, load_clients
from strongroom.daemons.director.catalog.names import names_of_runs
from strongroom.daemons.director.catalog.run_history import last_good_starts
from strongroom.daemons.director.catalog.runs import (
    find_runs,
    last_ends,
    last_runs,
    load_run,
    log_lines,
)
from strongroom.daemons.director.catalog.snapshots import (
    false_snapshots,
    missed_snapshots,
    missed_text,
)
from strongroom.daemons.director.expiries import all_expiries, expiry_metrics
from strongroom.daemons.director.metrics.of_catalog import catalog_metrics, permitted
from strongroom.daemons.director.metrics.of_runs import live_metrics
from strongroom.daemons.director.notices.figures import notice_metrics
from strongroom.daemons.director.results.access import permits_all
from strongroom.daemons.director.results.resources import Client, Job
from strongroom.daemons.director.results.runs import (
    FINAL_STATES,
    RESTORE_TEST_LEVEL,
    RunEvent,
    RunFilter,
)
from strongroom.daemons.director.results.snapshots import SnapshotFilter
from strongroom.daemons.director.results.status import Expiry, Status
from strongroom.daemons.director.runs.plan import plan, tls_mode_of
from strongroom.daemons.director.schedule.due_times import time_zone
from strongroom.errors import StrongroomError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from strongroom.config.settings.client import ClientSettings
    from strongroom.config.settings.job import JobSettings
    from strongroom.daemons.director.catalog.database import Catalog
    from strongroom.daemons.director.catalog.names import RecordedKind
    from strongroom.daemons.director.catalog.runs import RunRecord
    from strongroom.daemons.director.catalog.snapshots import SnapshotRecord
    from strongroom.daemons.director.context import DirectorContext
    from strongroom.daemons.director.notices.office import NoticeOffice
    from strongroom.daemons.director.results.access import AuditEntry, Permits, Token
    from strongroom.daemons.director.results.notices import NoticeOverview, OpenIncident
    from strongroom.daemons.director.results.resources import Capacity, ComingRuns
    from strongroom.daemons.director.results.runs import LogLine, Run
    from strongroom.daemons.director.runs.lifecycle import Runs
    from strongroom.daemons.director.schedule.scheduler import Scheduler
    from strongroom.daemons.exposition import Metric

_RECENT_RUNS: Final = 20
_DAY_NS: Final = 86400 * SECOND_NS
MOST_LISTED: Final = 10_000
_Filter = TypeVar("_Filter", RunFilter, SnapshotFilter)


class Queries:
    """See the module."""

    def __init__(
        self,
        context: DirectorContext,
        runs: Runs,
        scheduler: Scheduler,
        notices: NoticeOffice,
    ) -> None:
        self._context = context
        self._runs = runs
        self._scheduler = scheduler
        self._notices = notices
        self._started_ns = clock.now_ns()

    async def status(self, permits: Permits = permits_all) -> Status:
        """Status of the director: active and waiting runs, recent ones, those due in a day.

        permits: which clients and jobs counts and warnings are about; runs and problems are not
        filtered.
        """
        context = self._context
        clients = [name for name in context.configuration.clients if permits("client", name)]
        ended = RunFilter(states=tuple(sorted(FINAL_STATES)), limit=_RECENT_RUNS)
        recent = await context.in_thread(find_runs, context.catalog, ended)
        suspect = await context.in_thread(_suspect, context.catalog)
        problems = await self.problems()
        now_ns = clock.now_ns()
        obstacle = self._scheduler.guard.obstacle
        trust = context.identity.trust.revocations if context.identity is not None else None
        unlisted = trust.fault if trust is not None else ""
        faults = [obstacle, unlisted and f"nobody new is let in: {unlisted}"]
        expiries: list[Expiry] = []
        try:
            expiries = await self.expiries(permits)
        except (StrongroomError, OSError) as error:
            faults.append(f"it is not known which certificates end: {error}")
        if context.restart_needed:
            names = "; ".join(context.restart_needed)
            faults.append(f"{names}: changed, but in force only after a restart of the director")
        return Status(
            name=context.name,
            version=_version(),
            started_ns=self._started_ns,
            now_ns=now_ns,
            time_zone=context.configuration.director.time_zone or time_zone("").key,
            clients=len(clients),
            clients_connected=sum(context.link.is_connected(name) for name in clients),
            active=tuple(one.info() for one in self._runs.all_active()),
            recent=tuple(record.info() for record in recent),
            due=tuple(self._scheduler.due(now_ns + _DAY_NS)),
            warnings=(
                *(
                    one.text
                    for one in self._scheduler.warnings
                    if permits("job", one.job)
                    and permits("client", one.client)
                    and permits("schedule", one.schedule)
                ),
                *filter(None, faults),
                *(
                    text
                    for record, text in suspect
                    if permits("client", record.client)
                    and permits("job", record.job)
                    and permits("storage", record.storage)
                ),
                *self._notices.warnings,
            ),
            problems=problems,
            expiries=tuple(expiries),
            restart_needed=context.restart_needed,
        )

    async def expiries(self, permits: Permits = permits_all) -> list[Expiry]:
        """What ends when, of the clients and storages that are permitted, the first first."""
        found = await self._context.in_thread(all_expiries, self._context)
        return [
            one
            for one in found
            if permits("client", one.client) and permits("storage", one.storage)
        ]

    async def clients(self) -> list[Client]:
        """All Client resources by name."""
        return await self._clients(sorted(self._context.configuration.clients))

    async def client(self, name: str) -> Client:
        """One of them."""
        self._context.configuration.client(name)
        (found,) = await self._clients([name], name)
        return found

    async def _clients(self, names: Iterable[str], only: str = "") -> list[Client]:
        """Those of these names; only: where it is a single one."""
        context = self._context
        known = await context.in_thread(load_clients, context.catalog)
        good = await context.in_thread(last_good_starts, context.catalog, only)
        clients = context.configuration.clients
        return [
            self._client_info(clients[name], known.get(name), good.get(name, 0))
            for name in names
            if name in clients
        ]

    async def jobs(self, client: str = "") -> list[Job]:
        """All Job resources by name, or those of a client."""
        context = self._context
        last = await context.in_thread(last_runs, context.catalog)
        due = self._scheduler.next_of_job()
        return [
            self._job_info(job, due.get(name, 0), last.get(name))
            for name, job in sorted(context.configuration.jobs.items())
            if client in ("", job.client)
        ]

    async def coming_runs(self, until_ns: int) -> list[ComingRuns]:
        """All that schedules will start until then."""
        return await self._context.in_thread(self._scheduler.coming, clock.now_ns(), until_ns)

    async def restore_tests(self) -> list[Run]:
        """The last restore test of each job that ended, and the last that went well."""
        found = await self._context.in_thread(
            last_ends, self._context.catalog, "verify", RESTORE_TEST_LEVEL
        )
        return [record.info() for record in found]

    async def capacity(self, permits: Permits = permits_all) -> list[Capacity]:
        """The space of each storage that is permitted, and when it will be full."""
        context = self._context
        stored = await context.in_thread(capacities, context, self._notices.spaces())
        return [one for one in stored if permits("storage", one.storage)]

    async def runs(self, wanted: RunFilter) -> list[Run]:
        """Runs, the newest first."""
        found = await self._context.in_thread(find_runs, self._context.catalog, bounded(wanted))
        return [self._info(record) for record in found]

    async def names_of_runs(self, kind: RecordedKind) -> list[str]:
        """The clients, or the jobs, that the catalog has runs of."""
        return await self._context.in_thread(names_of_runs, self._context.catalog, kind)

    async def run(self, run_id: str) -> Run:
        """One run, by its id or an unambiguous beginning of it (at least 4 digits)."""
        record = await self._context.in_thread(load_run, self._context.catalog, run_id)
        return self._info(record)

    async def log(self, run_id: str, after: int = 0, limit: int = 1000) -> list[LogLine]:
        """Lines of a run's log whose sequence is above `after`, in order."""
        record = await self._context.in_thread(load_run, self._context.catalog, run_id)
        limit = max(1, min(limit, MOST_LISTED))
        return await self._context.in_thread(
            log_lines, self._context.catalog, record.id, after, limit
        )

    async def watch(self, run_id: str, after: int = 0) -> AsyncIterator[RunEvent]:
        """Events of a run: first its state, and log lines above `after`; stops at its end."""
        run_id = (await self.run(run_id)).id
        told: Run | None = None
        with self._runs.watchers.watching(run_id) as news:
            while True:
                news.clear()
                info = await self.run(run_id)
                if told is None or info != told:
                    is_new = told is None or told.state != info.state
                    yield RunEvent("state" if is_new else "progress", run=info)
                    told = info
                while lines := await self.log(run_id, after):
                    for line in lines:
                        yield RunEvent("log", line=line)
                    after = lines[-1].sequence
                if info.is_final:
                    return
                await news.wait()

    async def audit_entries(
        self, limit: int = 100, before_id: int = 0, who: str = ""
    ) -> list[AuditEntry]:
        """The audit log, the newest first, entries before `before_id` (0: from the end)."""
        limit = max(1, min(limit, MOST_LISTED))
        return await self._context.in_thread(
            list_audit, self._context.catalog, limit, before_id, who
        )

    async def tokens(self) -> list[Token]:
        """All tokens, without their texts."""
        return await self._context.in_thread(list_tokens, self._context.catalog)

    async def token_of(self, text: str) -> Token | None:
        """The token of this text, unless it has expired or was revoked."""
        return await self._context.in_thread(find_token, self._context.catalog, text)

    async def token_of_id(self, token_id: str) -> Token | None:
        """The token of this id, unless it has expired or was revoked."""
        return await self._context.in_thread(find_token_of_id, self._context.catalog, token_id)

    async def problems(self) -> tuple[OpenIncident, ...]:
        """What is wrong, errors first, then the oldest first."""
        wrong = (await self._notices.overview()).incidents
        return tuple(sorted(wrong, key=lambda one: (one.severity != "error", one.since_ns)))

    async def notices(self) -> NoticeOverview:
        """What is wrong, and the notices that wait or could not be delivered."""
        return await self._notices.overview()

    async def metrics(self, permits: Permits = permits_all) -> list[Metric]:
        """The director's metrics, for /metrics, of the jobs, clients and storages permitted."""
        context = self._context
        held = bool(self._scheduler.guard.obstacle)
        live = live_metrics(context, self._runs.all_active(), held, self._started_ns, permits)
        found = [*live, *await context.in_thread(catalog_metrics, context, permits)]
        found += await context.in_thread(notice_metrics, context, self._notices.delivery)
        with suppress(StrongroomError, OSError):
            found += expiry_metrics(await self.expiries(permits))
        return [permitted(metric, permits) for metric in found]

    def _info(self, record: RunRecord) -> Run:
        active = self._runs.active(record.id)
        return record.info() if active is None else active.info()

    def _client_info(
        self, client: ClientSettings, known: ClientRecord | None, last_backup_ns: int
    ) -> Client:
        name = client.name
        record = known or ClientRecord(name=name)
        active = self._runs.of_client(name)
        hello = self._context.hellos.get(name)
        return Client(
            name=name,
            address=record.address or client.address,
            is_enabled=client.enabled,
            is_connected=self._context.link.is_connected(name),
            version=record.version,
            platform=record.platform,
            features=record.features,
            certificate_serial=record.certificate_serial,
            enrolled_ns=record.enrolled_ns,
            last_seen_ns=record.last_seen_ns,
            clock_ahead_seconds=record.clock_ahead_ns / SECOND_NS,
            tls_mode=tls_mode_of(client, record.features),
            maximum_concurrent_runs=client.maximum_concurrent_jobs,
            workers=hello.workers if hello is not None else 0,
            running=sum(one.is_running for one in active),
            queued=sum(not one.is_running for one in active),
            last_backup_ns=last_backup_ns,
        )

    def _job_info(self, job: JobSettings, due_ns: int, last: RunRecord | None) -> Job:
        planned = plan(self._context.configuration, job.name)
        return Job(
            name=job.name,
            kind=job.kind,
            level=planned.level,
            client=planned.client,
            fileset=planned.fileset,
            schedule=job.schedule,
            storage=planned.storage,
            pool=planned.pool(planned.level),
            priority=planned.priority,
            is_enabled=job.enabled,
            next_due_ns=due_ns,
            last_run=None if last is None else self._info(last),
        )


def bounded(wanted: _Filter) -> _Filter:
    """The same, of as many as are listed at once."""
    return replace(
        wanted, limit=max(1, min(wanted.limit, MOST_LISTED)), offset=max(0, wanted.offset)
    )


def _version() -> str:
    from strongroom import __version__

    return __version__


def _suspect(catalog: Catalog) -> list[tuple[SnapshotRecord, str]]:
    """Snapshots that an operator has to look at, and why."""
    false = [
        (one, f"snapshot {one.id[:8]} of {one.client} is false: {one.false_reason}; forget it")
        for one in false_snapshots(catalog)
    ]
    return false + [(one, missed_text(one)) for one in missed_snapshots(catalog)]
