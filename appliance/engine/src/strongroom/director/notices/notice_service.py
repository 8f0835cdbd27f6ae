"""Runs the notices of a director: looks for what is wrong, stores it, has it sent.

Three activities of the event loop: `look` every minute, and for a job when a run of it starts or
ends; `measure` of the repositories' disks every ten minutes; `deliver` while anything waits. The
catalog has all state, so that a restart neither loses nor repeats a notice. When the catalog itself
is unreachable, that is reported past it, once, from memory.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from itertools import chain
from typing import Final

from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.base.errors import CatalogUnavailableError, StrongroomError
from strongroom.base.quantities import counted
from strongroom.director.catalog.incidents import (
    Condition,
    Incident,
    note_once,
    open_incidents,
    remove_old_incidents,
    settle,
)
from strongroom.director.catalog.outbox import (
    Failing,
    dead_letters,
    drop_dead,
    failing_destinations,
    note_working,
    retry_dead,
    waiting_counts,
)
from strongroom.director.context import DirectorContext, repeat, survive
from strongroom.director.notices.catalog_trouble import CatalogTrouble
from strongroom.director.notices.delivery import Delivery, send_tests
from strongroom.director.notices.digests import queue_digests
from strongroom.director.notices.expiries import TOPICS as EXPIRY_TOPICS
from strongroom.director.notices.expiries import expiry_conditions
from strongroom.director.notices.letters import Announcements
from strongroom.director.notices.reports import queue_ping, send_reports
from strongroom.director.notices.targets import name_of, targets_of
from strongroom.director.notices.watch_director import (
    CLOCK_TOPIC,
    CONFIGURATION_TOPIC,
    OUTBOX_TOPIC,
    RIVALS_TOPIC,
    ConfigurationWatch,
    clock_conditions,
    rival_conditions,
    undelivered,
)
from strongroom.director.notices.watch_jobs import PATH_TOPIC, TIMELY, TOPIC, JobWatch, job_part
from strongroom.director.notices.watch_snapshots import (
    COPIES_TOPIC,
    UNKNOWN_TOPIC,
    late_copies,
    suspect_snapshots,
    unknown_snapshots,
)
from strongroom.director.notices.watch_snapshots import TOPIC as SNAPSHOT_TOPIC
from strongroom.director.notices.watch_storage import DISK, REACH, StorageWatch
from strongroom.director.results.runs import Run
from strongroom.director.results.status import DeadLetter, NoticeOverview, NoticeTest, OpenIncident
from strongroom.director.runs.active_run import ActiveRuns
from strongroom.director.snapshots.reconciliation import Reconciled
from strongroom.engine.stores.servable import Space

LOOK_SECONDS: Final = 60.0
MEASURE_SECONDS: Final = 600.0
DELIVER_SECONDS: Final = 5.0
# A catalog that takes so long hangs: its server or disk was stopped.
HANGING_SECONDS = 120.0
_EXPIRY_SECONDS: Final = 600.0
_KEPT_NS: Final = 400 * 86400 * SECOND_NS
_DEAD_KEPT_NS: Final = 30 * 86400 * SECOND_NS
# An agent can make any number of false snapshots.
_MOST_REFUSED: Final = 20

_log = logging.getLogger(__name__)


class NoticeService:
    """The three activities, of the event loop. warnings: for the status of the director."""

    def __init__(self, context: DirectorContext, active: ActiveRuns) -> None:
        self._context = context
        self._active = active
        self._jobs = JobWatch(context)
        self._storages = StorageWatch(context)
        self._configuration = ConfigurationWatch(context)
        self._trouble = CatalogTrouble(context.working_directory)
        # By storage, of those that were compared with the catalog.
        self._unknown: dict[str, list[Condition]] = {}
        self._expiring: list[Condition] | None = None
        self._expiry_at = 0.0
        self._looking = asyncio.Lock()
        self._posted = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self.delivery = Delivery(context)
        self.warnings: tuple[str, ...] = ()
        context.followers.append(self._follow)

    def start(self) -> None:
        """Begin; `stop` ends it."""
        self._tasks = [
            asyncio.create_task(repeat("notices", self.measure, MEASURE_SECONDS)),
            asyncio.create_task(repeat("notices", self.look, LOOK_SECONDS, LOOK_SECONDS)),
            asyncio.create_task(self._delivering()),
        ]

    def _follow(self) -> None:
        self.delivery.hurry()
        self._posted.set()

    async def stop(self) -> None:
        """Stop; what waits stays in the catalog."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self.delivery.close()

    async def look(self) -> None:
        """Compare all that is wrong now with what was reported. Raises StrongroomError, OSError."""
        async with self._looking:
            try:
                changed = await self._looked()
            except CatalogUnavailableError as error:
                send = self.delivery.send_now
                await self._trouble.persists(self._context.configuration, send, error)
                return
            if await self._trouble.is_over(self._context) or changed:
                self._posted.set()

    async def _looked(self) -> bool:
        """Look in a thread, and tell people while a catalog that hangs keeps it from ending."""
        context = self._context
        looking = asyncio.create_task(context.in_thread(self._look, self._active.records()))
        try:
            while not (await asyncio.wait((looking,), timeout=HANGING_SECONDS))[0]:
                hangs = CatalogUnavailableError(f"{context.catalog.place} does not answer")
                await self._trouble.persists(context.configuration, self.delivery.send_now, hangs)
        except asyncio.CancelledError:
            looking.cancel()
            raise
        return looking.result()

    async def measure(self) -> None:
        """Look at the disks of all repositories."""
        names = self._context.repositories.names
        calls = (self._context.with_repository(self._storages.measure, name) for name in names)
        await asyncio.gather(*calls)

    async def deliver(self) -> bool:
        """Send what is due; returns whether anything waits still. Raises CatalogError."""
        return await self.delivery.deliver_due()

    async def started(self, record: Run) -> None:
        """A run begins: whether it is late, and the ping of its job."""
        await self._of_run(record, with_ping=True)

    async def report(self, record: Run) -> None:
        """A run has ended: its report, and the ping of its job. Raises StrongroomError, OSError."""
        context = self._context
        await survive(context.in_thread, send_reports, context, record)
        await survive(context.in_thread, queue_ping, context, record)

    async def ended(self, record: Run) -> None:
        """A run has ended: whether its job is well now."""
        await self._of_run(record, with_ping=False)

    async def reconciled(self, storage: str, result: Reconciled) -> None:
        """Catalog and repository were compared. Raises CatalogError."""
        self._unknown[storage] = unknown_snapshots(storage, result.unknown)
        refused = {name: why for name, why in result.refused.items() if name not in result.unknown}
        await self.found_false(storage, refused)

    async def found_false(self, storage: str, refused: Mapping[str, str]) -> None:
        """Snapshots were found that are not what they say. Raises CatalogError."""
        found = [
            Condition(
                event="false-snapshot",
                topic=f"false:{snapshot[:64]}",
                title=f"a snapshot in storage {storage} is false or damaged, and was not entered",
                detail=f"{snapshot[:16]}: {why}",
                remedy="find out what its agent did; the snapshot is not used",
                since_ns=clock.now_ns(),
                storage=storage,
            )
            for snapshot, why in sorted(refused.items())[:_MOST_REFUSED]
        ]
        if (more := len(refused) - len(found)) > 0:
            found[-1] = found[-1]._replace(
                title=f"{more + 1} more snapshots in storage {storage} are false or damaged"
            )
        announcements = Announcements(self._context.configuration)
        await self._context.ask(note_once, found, announcements)
        self._posted.set()

    async def test(self, name: str, who: str) -> list[NoticeTest]:
        """Send a test to a destination, "" for all of them. Raises UnknownNameError."""
        tests = await send_tests(self._context, self.delivery, name, who)
        self._posted.set()
        return tests

    async def retry(self) -> int:
        """Try dead letters once more; returns how many."""
        count = await self._context.ask(retry_dead)
        self._posted.set()
        return count

    def spaces(self) -> Mapping[str, Space]:
        """The space at each storage, as last measured."""
        return self._storages.spaces()

    async def overview(self) -> NoticeOverview:
        """What is wrong, waits, and could not be delivered."""
        return await self._context.in_thread(self._overview)

    def _overview(self) -> NoticeOverview:
        catalog = self._context.catalog
        return NoticeOverview(
            incidents=tuple(
                OpenIncident(**{name: getattr(one, name) for name in OpenIncident.__slots__})
                for one in open_incidents(catalog)
            ),
            waiting=sum(waiting_counts(catalog).values()),
            dead=tuple(
                DeadLetter(
                    destination=name_of(one.destination),
                    form=one.form,
                    subject=one.subject,
                    created_ns=one.created_ns,
                    failed_ns=one.failed_ns,
                    error=one.error,
                )
                for one in dead_letters(catalog)
            ),
        )

    async def _of_run(self, record: Run, *, with_ping: bool) -> None:
        try:
            if with_ping:
                await self._context.in_thread(queue_ping, self._context, record)
            async with self._looking:
                await self._context.in_thread(self._look_at_job, record.job, self._active.records())
        except (StrongroomError, OSError) as error:
            # The next look finds it.
            _log.warning("notices of run %s are delayed: %s", record.id, error)
        except Exception:  # noqa: BLE001 - no run fails because people are notified of it
            _log.exception("notices of run %s", record.id)
        self._posted.set()

    def _look(self, active: list[Run]) -> bool:
        context, catalog = self._context, self._context.catalog
        catalog.require_writable()
        announcements = Announcements(context.configuration)
        guard = context.guard
        obstacle = guard.obstacle
        # A day is enough: with a clock that is never trusted nothing late would ever be reported.
        is_trusted = not obstacle or guard.is_unsteady
        lasting = frozenset(one.topic for one in open_incidents(catalog))
        dead = dead_letters(catalog)
        found, undecided = self._jobs.conditions(active, clock_is_trusted=is_trusted)
        found += self._storages.conditions(lasting)
        found += self._configuration.conditions()
        found += undelivered(self._failing(), dead)
        found += suspect_snapshots(catalog)
        found += chain.from_iterable(self._unknown.values())
        found += rival_conditions(context.rivals)
        found += self._expiry(announcements, is_trusted=not obstacle)
        found += clock_conditions(guard)
        found += late_copies(context) if is_trusted else ()

        def judged(incident: Incident) -> bool:
            topic = incident.topic
            if topic.startswith(TOPIC):
                is_known = is_trusted or incident.event not in TIMELY
                return is_known and topic not in undecided
            if topic.startswith(PATH_TOPIC):
                return job_part(topic) not in undecided
            if topic.startswith(EXPIRY_TOPICS):
                return not obstacle and self._expiring is not None
            if topic.startswith((DISK, REACH)):
                return self._storages.has_measured(topic)
            if topic.startswith(COPIES_TOPIC):
                return is_trusted and self._knows_copies(topic.removeprefix(COPIES_TOPIC))
            if topic.startswith(UNKNOWN_TOPIC):
                return topic.removeprefix(UNKNOWN_TOPIC) in self._unknown
            if topic == CONFIGURATION_TOPIC:
                return not self._context.reload_errors
            return topic == CLOCK_TOPIC or topic.startswith(
                (OUTBOX_TOPIC, SNAPSHOT_TOPIC, RIVALS_TOPIC)
            )

        changed = settle(catalog, found, judged, announcements)
        now_ns = clock.now_ns()
        if not obstacle:
            remove_old_incidents(catalog, now_ns - _KEPT_NS)
            if dead and drop_dead(catalog, now_ns - _DEAD_KEPT_NS):
                dead = dead_letters(catalog)
        self.warnings = _warnings(len(dead))
        return queue_digests(context, announcements.zone) or changed

    def _knows_copies(self, pool: str) -> bool:
        """Whether the copies of a pool were counted, or there are to be none."""
        context = self._context
        is_seen = any(one.pool == pool for one in context.copies)
        return is_seen or context.configuration.copy_target(pool) is None

    def _failing(self) -> dict[str, Failing]:
        """The destinations that fail; those that the configuration has not are forgotten."""
        targets = targets_of(self._context.configuration)
        failing = failing_destinations(self._context.catalog)
        for key in failing.keys() - targets.keys():
            note_working(self._context.catalog, key)
        return {key: one for key, one in failing.items() if key in targets}

    def _look_at_job(self, job: str, active: list[Run]) -> None:
        catalog, guard = self._context.catalog, self._context.guard
        is_trusted = not guard.obstacle or guard.is_unsteady
        found, undecided = self._jobs.conditions(active, job, clock_is_trusted=is_trusted)

        def judged(incident: Incident) -> bool:
            if incident.job != job or not incident.topic.startswith((TOPIC, PATH_TOPIC)):
                return False
            if incident.topic.startswith(PATH_TOPIC):
                return job_part(incident.topic) not in undecided
            is_known = is_trusted or incident.event not in TIMELY
            return is_known and incident.topic not in undecided

        settle(catalog, found, judged, Announcements(self._context.configuration))

    def _expiry(self, announcements: Announcements, *, is_trusted: bool) -> list[Condition]:
        now = clock.elapsed_seconds()
        if is_trusted and (self._expiring is None or now >= self._expiry_at):
            self._expiry_at = now + _EXPIRY_SECONDS
            try:
                self._expiring = expiry_conditions(self._context, announcements.zone)
            except CatalogUnavailableError:
                raise
            except (StrongroomError, OSError) as error:
                self._expiring = None
                _log.warning("certificates cannot be checked: %s", error)
        return list(self._expiring or ()) if is_trusted else []

    async def _delivering(self) -> None:
        while True:
            waits, pause = True, DELIVER_SECONDS
            try:
                waits = await self.deliver()
            except (StrongroomError, OSError) as error:
                _log.warning("notices: %s", error)
                pause = LOOK_SECONDS
            except Exception:  # noqa: BLE001 - without it no one would be notified of anything
                _log.exception("internal error in the notices; they continue")
            self._posted.clear()
            if waits:
                await asyncio.sleep(pause)
                continue
            try:
                await asyncio.wait_for(self._posted.wait(), LOOK_SECONDS)
            except TimeoutError:
                continue


def _warnings(dead: int) -> tuple[str, ...]:
    if not dead:
        return ()
    what = counted(dead, "message")
    return (f"{what} could not be delivered; see `strongroom notify list`",)
