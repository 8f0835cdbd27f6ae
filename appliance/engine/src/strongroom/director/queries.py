"""Read-only operations: status, clients, jobs, runs, tokens, metrics.

Nothing here changes anything. See `director` for the errors raised; `snapshot_queries` has those on
snapshots and their files.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Final

from strongroom import __version__
from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.base.errors import StrongroomError
from strongroom.config.settings.client import ClientSettings
from strongroom.config.settings.job import JobSettings
from strongroom.director.catalog.access import (
    find_token,
    find_token_of_id,
    list_audit,
    list_tokens,
)
from strongroom.director.catalog.clients import (
    ClientRecord,
    RecordedKind,
    load_clients,
    names_of_runs,
)
from strongroom.director.catalog.database import Catalog
from strongroom.director.catalog.run_history import last_good_starts
from strongroom.director.catalog.runs import find_runs, last_runs, load_run, log_lines
from strongroom.director.catalog.snapshots import (
    false_snapshots,
    missed_snapshots,
    missed_text,
)
from strongroom.director.context import DirectorContext
from strongroom.director.kept_figures import KeptFigures
from strongroom.director.metrics import (
    catalog_metrics,
    live_metrics,
    notice_metrics,
    permitted,
    repository_metrics,
    run_metric,
)
from strongroom.director.notices.expiries import all_expiries, expiry_metrics
from strongroom.director.notices.notice_service import NoticeService
from strongroom.director.notices.watch_storage import capacities
from strongroom.director.results.access import AuditEntry, Permits, Token, permits_all
from strongroom.director.results.runs import (
    FINAL_STATES,
    LogLine,
    Run,
    RunEvent,
    RunFilter,
)
from strongroom.director.results.snapshots import Snapshot
from strongroom.director.results.status import (
    Capacity,
    Client,
    ComingRuns,
    Expiry,
    Job,
    NoticeOverview,
    OpenIncident,
    Status,
)
from strongroom.director.runs.lifecycle import Runs
from strongroom.director.runs.requests import plan
from strongroom.director.runs.start_messages import tls_mode_of
from strongroom.director.schedule.due_times import time_zone
from strongroom.director.schedule.scheduler import Scheduler
from strongroom.director.snapshot_queries import bounded, bounded_number
from strongroom.service.exposition import Metric, Piece, exposition

_RECENT_RUNS: Final = 20
# More are not looked up by their names: the whole is read.
_MANY_NAMES: Final = 1000
_DAY_NS: Final = 86400 * SECOND_NS
# Whether a caller may know of a certificate or token: its kind, and whose it is.
Knows = Callable[[str, str], bool]


def knows_all(kind: str, name: str) -> bool:
    """The director itself may know of every credential."""
    return True


class Queries:
    """Answers of the director to its callers; nothing here changes anything."""

    def __init__(
        self,
        context: DirectorContext,
        runs: Runs,
        scheduler: Scheduler,
        notices: NoticeService,
    ) -> None:
        self._context = context
        self._runs = runs
        self._scheduler = scheduler
        self._notices = notices
        self._started_ns = clock.now_ns()
        self._kept = KeptFigures(context)

    async def status(
        self,
        permits: Permits = permits_all,
        knows: Knows = knows_all,
        limit: int | None = None,
    ) -> Status:
        """Status of the director: active and waiting runs, recent ones, those due in a day.

        permits: which clients and jobs counts, warnings and due runs are about; other runs and
        problems are not filtered. knows: of which credentials. limit: of the runs that are due,
        and of what ends.
        """
        context = self._context
        clients = [name for name in context.configuration.clients if permits("client", name)]
        ended = RunFilter(states=tuple(sorted(FINAL_STATES)), limit=_RECENT_RUNS)
        recent = await context.ask(find_runs, ended)
        suspect = await context.ask(_suspect)
        problems = await self.problems()
        now_ns = clock.now_ns()
        due = (
            one
            for one in self._scheduler.due(now_ns + _DAY_NS)
            if permits("job", one.job) and permits("client", one.client)
        )
        obstacle = self._context.guard.obstacle
        trust = context.identity.trust.revocations if context.identity is not None else None
        unlisted = trust.fault if trust is not None else ""
        faults = [obstacle, unlisted and f"no new connections are accepted: {unlisted}"]
        expiries: list[Expiry] = []
        try:
            expiries = await self.expiries(permits, knows, limit)
        except (StrongroomError, OSError) as error:
            faults.append(f"it is not known which certificates end: {error}")
        if context.restart_needed:
            names = "; ".join(context.restart_needed)
            faults.append(f"{names}: changed, but in force only after a restart of the director")
        return Status(
            name=context.name,
            version=__version__,
            started_ns=self._started_ns,
            now_ns=now_ns,
            time_zone=context.configuration.director.time_zone or time_zone("").key,
            clients=len(clients),
            clients_connected=sum(context.link.is_connected(name) for name in clients),
            active=tuple(one.info() for one in self._runs.active.all()),
            recent=tuple(recent),
            due=tuple(islice(due, limit)),
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
            copies=tuple(
                one
                for one in context.copies
                if permits("pool", one.pool) and permits("storage", one.storage)
            ),
            restart_needed=context.restart_needed,
        )

    async def expiries(
        self, permits: Permits = permits_all, knows: Knows = knows_all, limit: int | None = None
    ) -> list[Expiry]:
        """What ends when, of the clients and storages that are permitted, the first first."""
        found = await self._context.in_thread(all_expiries, self._context)
        return list(islice(_known(found, permits, knows), limit))

    async def clients(self, names: Collection[str] | None = None) -> list[Client]:
        """The Client resources of these names, in this order; all by name."""
        context = self._context
        few = None if names is None or len(names) > _MANY_NAMES else names
        known = await context.ask(load_clients, few)
        good = await context.ask(last_good_starts, few)
        clients = context.configuration.clients
        names = sorted(clients) if names is None else names
        return [
            self._client_info(clients[name], known.get(name), good.get(name, 0))
            for name in names
            if name in clients
        ]

    async def client(self, name: str) -> Client:
        """One of them."""
        self._context.configuration.client(name)
        (found,) = await self.clients([name])
        return found

    async def good_starts(self) -> dict[str, int]:
        """Client -> when its last successful backup began."""
        return await self._context.in_thread(self._kept.good_starts)

    async def jobs(self, names: Collection[str] | None = None) -> list[Job]:
        """The Job resources of these names, in this order; all by name."""
        context = self._context
        few = None if names is None or len(names) > _MANY_NAMES else names
        last = await context.ask(last_runs, few)
        jobs = context.configuration.jobs
        names = sorted(jobs) if names is None else names
        due = self._scheduler.next_of_job(names)
        return [
            self._job_info(jobs[name], due.get(name, 0), last.get(name))
            for name in names
            if name in jobs
        ]

    async def coming_runs(self, until_ns: int) -> list[ComingRuns]:
        """All that schedules will start until then."""
        return await self._context.in_thread(self._scheduler.coming, clock.now_ns(), until_ns)

    async def restore_tests(self) -> list[Run]:
        """The last restore test of each job and client that ended, without details."""
        return await self._context.in_thread(self._kept.restore_tests)

    async def capacity(self, permits: Permits = permits_all) -> list[Capacity]:
        """The space of each storage that is permitted, and when it will be full."""
        context = self._context
        stored = await context.in_thread(capacities, context, self._notices.spaces())
        return [one for one in stored if permits("storage", one.storage)]

    async def runs(self, wanted: RunFilter) -> list[Run]:
        """Runs, the newest first."""
        found = await self._context.ask(find_runs, bounded(wanted))
        return [self._info(record) for record in found]

    async def names_of_runs(self, kind: RecordedKind) -> list[str]:
        """The clients, or the jobs, that the catalog has runs of."""
        return await self._context.ask(names_of_runs, kind)

    async def run(self, run_id: str) -> Run:
        """One run, by its id or an unambiguous beginning of it (at least 4 digits)."""
        record = await self._context.ask(load_run, run_id)
        return self._info(record)

    async def log(self, run_id: str, after: int = 0, limit: int = 1000) -> list[LogLine]:
        """Lines of a run's log whose sequence is above `after`, in order."""
        record = await self._context.ask(load_run, run_id)
        limit = bounded_number(limit)
        return await self._context.ask(log_lines, record.id, after, limit)

    async def watch(self, run_id: str, after: int = 0) -> AsyncIterator[RunEvent]:
        """Events of a run: first its state, and log lines above `after`; stops at its end."""
        run_id = (await self.run(run_id)).id
        sent: Run | None = None
        with self._runs.watchers.watching(run_id) as news:
            while True:
                news.clear()
                info = await self.run(run_id)
                if sent is None or info != sent:
                    is_new = sent is None or sent.state != info.state
                    yield RunEvent("state" if is_new else "progress", run=info)
                    sent = info
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
        limit = bounded_number(limit)
        return await self._context.ask(list_audit, limit, before_id, who)

    async def tokens(self) -> list[Token]:
        """All tokens, without their texts."""
        return await self._context.ask(list_tokens)

    async def token_of(self, text: str) -> Token | None:
        """The token of this text, unless it has expired or was revoked."""
        return await self._context.ask(find_token, text)

    async def token_of_id(self, token_id: str) -> Token | None:
        """The token of this id, unless it has expired or was revoked."""
        return await self._context.ask(find_token_of_id, token_id)

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
        found = [*self._live(permits), *await context.in_thread(catalog_metrics, context, permits)]
        found += await context.in_thread(notice_metrics, context, self._notices.delivery)
        with suppress(StrongroomError, OSError):
            found += expiry_metrics(await self.expiries(permits))
        return [permitted(metric, permits) for metric in found]

    async def exposition(
        self,
        permits: Permits = permits_all,
        permits_every: bool = True,
        knows: Knows = knows_all,
        more: Collection[Metric] = (),
    ) -> list[Piece]:
        """The same as text, of what is kept of jobs and clients, and more behind it.

        permits_every: all jobs, clients and storages, without asking for each of them.
        """
        return await self._context.in_thread(
            self._exposition, self._live(permits), permits, permits_every, knows, more
        )

    def _exposition(
        self,
        live: list[Metric],
        permits: Permits,
        permits_every: bool,
        knows: Knows,
        more: Collection[Metric],
    ) -> list[Piece]:
        context, kept = self._context, self._kept
        figures = kept.read(permits, permits_every=permits_every)
        found = [*live, *repository_metrics(context, figures.snapshot_bytes)]
        found.append(run_metric(figures.run_counts, permits))
        found += notice_metrics(context, self._notices.delivery)
        if not permits_every:
            with suppress(StrongroomError, OSError):
                found += expiry_metrics(list(_known(all_expiries(context), permits, knows)))
        rest = exposition(permitted(metric, permits) for metric in found)
        return [*figures.pieces, Piece.of(rest + exposition(more))]

    def _live(self, permits: Permits) -> list[Metric]:
        held = bool(self._context.guard.obstacle)
        active = self._runs.active.all()
        return live_metrics(self._context, active, held, self._started_ns, permits)

    def _info(self, record: Run) -> Run:
        active = self._runs.active.get(record.id)
        return record if active is None else active.info()

    def _client_info(
        self, client: ClientSettings, known: ClientRecord | None, last_backup_ns: int
    ) -> Client:
        name = client.name
        record = known or ClientRecord(name=name)
        active = self._runs.active.of_client(name)
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

    def _job_info(self, job: JobSettings, due_ns: int, last: Run | None) -> Job:
        planned = plan(self._context.configuration, job.name)
        return Job(
            name=job.name,
            kind=job.kind,
            level=planned.level,
            client=planned.client,
            fileset=planned.fileset,
            schedule=job.schedule,
            storage=planned.storage,
            pool=planned.pool,
            priority=planned.priority,
            is_enabled=job.enabled,
            next_due_ns=due_ns,
            last_run=None if last is None else self._info(last),
        )


def _known(found: Iterable[Expiry], permits: Permits, knows: Knows) -> Iterator[Expiry]:
    return (
        one
        for one in found
        if permits("client", one.client)
        and permits("storage", one.storage)
        and knows(one.kind, one.name)
    )


def _suspect(catalog: Catalog) -> list[tuple[Snapshot, str]]:
    """Snapshots that an operator has to look at, and why."""
    false = [
        (one, f"snapshot {one.id[:8]} of {one.client} is false: {one.false_reason}; forget it")
        for one in false_snapshots(catalog)
    ]
    return false + [(one, missed_text(one)) for one in missed_snapshots(catalog)]
