"""Starts jobs by their schedules.

For each Run of an enabled schedule of an enabled job the catalog has the time up to which due times
were processed. A new Run starts with the current time, and so does one that was disabled (it, its
job, client or schedule) or whose time zone has changed. Due times since then, be it a minute ago or
while the director was down, the machine slept or the clock jumped ahead, start one run together:
with the highest level that was due, and scheduled for the last due time. With Max Start Delay a run
that is later than that is recorded as cancelled instead. If the clock is set back by more than an
hour, times become due again; a smaller correction repeats nothing.

A run for a due time is stored before the time is, and is looked up by it, so that a crash between
the two starts nothing twice.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from strongroom import clock
from strongroom.clock import SECOND_NS
from strongroom.daemons.director.catalog.redating import redate
from strongroom.daemons.director.catalog.runs import find_runs
from strongroom.daemons.director.catalog.state import (
    keep_due,
    last_due,
    note_due,
    read_state,
    write_state,
)
from strongroom.daemons.director.results.resources import ComingRuns, DueRun
from strongroom.daemons.director.results.runs import RunFilter
from strongroom.daemons.director.runs.plan import Overrides, plan
from strongroom.daemons.director.runs.requests import new_run, require_complete
from strongroom.daemons.director.schedule.clock_guard import ClockGuard
from strongroom.daemons.director.schedule.due_times import (
    due_times_ns,
    entry_digest,
    last_due_ns,
    next_due_ns,
    time_zone,
    zone_text,
)
from strongroom.daemons.director.schedule.expectations import schedule_of
from strongroom.daemons.director.shown_text import shown_time
from strongroom.errors import StrongroomError, UsageError

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from strongroom.config.settings.job import JobSettings
    from strongroom.config.settings.schedule import ScheduleSettings
    from strongroom.config.values.run_schedule import ScheduleRun
    from strongroom.daemons.director.context import DirectorContext
    from strongroom.daemons.director.runs.lifecycle import Runs
    from strongroom.daemons.director.runs.plan import JobPlan

LONGEST_SLEEP_SECONDS: Final = 30.0
# After a failure due runs are retried after a pause.
RETRY_SECONDS: Final = 5.0
BACKWARD_NS: Final = 3600 * SECOND_NS
_SAVE_CLOCK_SECONDS: Final = 60.0
_CLOCK_STATE: Final = "clock"
_RANK: Final = {"Full": 3, "Differential": 2, "Incremental": 1}

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Entry:
    """A Run of a job's schedule: the time processed last, and the next due time.

    starts: what it starts at `next_ns`, None where it cannot; not known before somebody asks. A
    reload makes new entries.
    """

    job: JobSettings
    run: ScheduleRun
    zone: ZoneInfo
    key: tuple[str, str]
    seen_ns: int
    next_ns: int | None
    starts: DueRun | None = None
    is_planned: bool = False


class ScheduleWarning(NamedTuple):
    """A condition that needs an operator, and the resources that it names; "" for none."""

    text: str
    job: str = ""
    client: str = ""
    schedule: str = ""


class Scheduler:
    """See the module; belongs to the event loop."""

    def __init__(self, context: DirectorContext, runs: Runs) -> None:
        self._context = context
        self._runs = runs
        self._entries: list[_Entry] = []
        self._woken = asyncio.Event()
        self._wakes_at = 0.0
        runs.expects = self.wake_by
        self._saved_at = 0.0
        self._system_zone = time_zone("")
        self.guard = ClockGuard()
        self.warnings: list[ScheduleWarning] = []

    async def load(self) -> None:
        """Start with the state in the catalog and the schedules of the configuration."""
        saved = await self._context.in_thread(read_state, self._context.catalog, _CLOCK_STATE)
        self._warn(self.guard.load(saved))
        await self.reload()

    async def reload(self) -> None:
        """Apply the schedules of the configuration, after it has changed."""
        seen = await self._context.in_thread(last_due, self._context.catalog)
        now_ns = clock.now_ns()
        entries = []
        fresh: dict[tuple[str, str], int] = {}
        zones = {entry.key: entry.zone for entry in self._entries}
        self._system_zone = time_zone("")
        configuration = self._context.configuration
        for job in configuration.jobs.values():
            schedule = schedule_of(configuration, job)
            if schedule is None:
                continue
            for run in schedule.runs:
                key = (job.name, entry_digest(run))
                zone = self._zone(schedule)
                if key not in seen or zones.get(key, zone) is not zone:
                    fresh[key] = now_ns
                entry = _Entry(job, run, zone, key, fresh.get(key) or seen[key], None)
                entry.next_ns = next_due_ns(run, entry.seen_ns, zone)
                entries.append(entry)
        self._entries = entries
        keys = {entry.key for entry in entries}
        await self._context.in_thread(keep_due, self._context.catalog, keys)
        await self._context.in_thread(note_due, self._context.catalog, fresh)
        self.wake()

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            seconds = 0.0
            try:
                await self.tick()
            except StrongroomError as error:
                _log.error("the scheduler failed and is retried: %s", error)
                seconds = RETRY_SECONDS
            except Exception:  # noqa: BLE001 - without the scheduler no job would start any more
                _log.exception("the scheduler has a fault, and goes on")
                seconds = RETRY_SECONDS
            self._woken.clear()
            try:
                seconds = max(seconds, self._sleep_seconds())
                self._wakes_at = clock.elapsed_seconds() + seconds
                await asyncio.wait_for(self._woken.wait(), seconds)
            except TimeoutError:
                continue

    def wake(self) -> None:
        """Check due times now."""
        self._woken.set()

    def wake_by(self, moment: float) -> None:
        """Check due times by this moment of clock.elapsed_seconds, if not earlier."""
        if moment < self._wakes_at:
            self.wake()

    async def tick(self) -> None:
        """Start due runs; end those beyond a time limit."""
        jump = self.guard.observe()
        self._warn(jump)
        if (wrong := self.guard.wrong) is not None:
            count = await self._context.in_thread(redate, self._context.catalog, wrong)
            self.guard.wrong = None
            _log.warning("times that the wrong clock wrote were corrected in %d rows", count)
        if (system_zone := time_zone("")) is not self._system_zone:
            _log.warning("the system's time zone has changed to %s", zone_text(system_zone))
            await self.reload()
        now = clock.elapsed_seconds()
        if jump or now - self._saved_at >= _SAVE_CLOCK_SECONDS:
            self._saved_at = now
            saved = self.guard.saved()
            await self._context.in_thread(write_state, self._context.catalog, _CLOCK_STATE, saved)
        await self._start_due(clock.now_ns())
        await self._runs.tick()

    def due(self, until_ns: int) -> list[DueRun]:
        """What schedules will start until then, the next of each Run; the earliest first."""
        found = []
        for entry in self._entries:
            if entry.next_ns is None or entry.next_ns > until_ns:
                continue
            due = self._due_run(entry, entry.next_ns)
            if due is not None:
                found.append(due)
        return sorted(found, key=lambda one: (one.due_ns, one.priority, one.job))

    def coming(self, after_ns: int, until_ns: int) -> list[ComingRuns]:
        """All that schedules will start after one moment, up to another. May take long; no state.

        Jobs of one schedule are due together, so each of its times is looked up once.
        """
        known: dict[tuple[str, str], tuple[int, ...]] = {}
        found = []
        for entry in self._entries:
            same = (entry.key[1], entry.zone.key)
            times_ns = known.get(same)
            if times_ns is None:
                times_ns = tuple(due_times_ns(entry.run, after_ns, until_ns, entry.zone))
                known[same] = times_ns
            due = self._due_run(entry, times_ns[0]) if times_ns else None
            if due is not None:
                found.append(ComingRuns(due, times_ns))
        return found

    def next_of_job(self) -> dict[str, int]:
        """Job -> when it is due next."""
        found: dict[str, int] = {}
        for entry in self._entries:
            if entry.next_ns is not None:
                name = entry.job.name
                found[name] = min(found.get(name, entry.next_ns), entry.next_ns)
        return found

    def _due_run(self, entry: _Entry, due_ns: int) -> DueRun | None:
        """What an entry starts; None where it cannot, which it will tell when it is due."""
        if not entry.is_planned:
            entry.starts, entry.is_planned = self._first_run(entry), True
        return None if entry.starts is None else replace(entry.starts, due_ns=due_ns)

    def _first_run(self, entry: _Entry) -> DueRun | None:
        try:
            planned = self._plan(entry)
            require_complete(planned)
        except StrongroomError:
            return None
        return DueRun(
            job=planned.job.name,
            client=planned.client,
            level=planned.level,
            pool=planned.pool(planned.level),
            storage=planned.storage,
            priority=planned.priority,
            due_ns=entry.next_ns or 0,
        )

    async def _start_due(self, now_ns: int) -> None:
        by_job: dict[str, list[tuple[int, _Entry]]] = {}
        noted: dict[tuple[str, str], int] = {}
        for entry in self._entries:
            if entry.seen_ns > now_ns + BACKWARD_NS:
                text = f"the clock was set back; job {entry.job.name} counts from now again"
                self._warn(text, job=entry.job)
                self._see(entry, now_ns, noted)
            elif entry.next_ns is not None and entry.next_ns <= now_ns:
                due_ns = last_due_ns(entry.run, entry.seen_ns, now_ns, entry.zone)
                by_job.setdefault(entry.job.name, []).append((due_ns or entry.next_ns, entry))
        for due in by_job.values():
            await self._start(due, now_ns)
            for _, entry in due:
                self._see(entry, now_ns, noted)
        if noted:
            await self._context.in_thread(note_due, self._context.catalog, noted)

    def _see(self, entry: _Entry, now_ns: int, noted: dict[tuple[str, str], int]) -> None:
        entry.seen_ns = noted[entry.key] = now_ns
        entry.next_ns = next_due_ns(entry.run, now_ns, entry.zone)

    async def _start(self, due: list[tuple[int, _Entry]], now_ns: int) -> None:
        """One run for all entries of a job that are due."""
        due_ns, entry = max(due, key=lambda one: (_rank(one[1]), one[0]))
        job = entry.job
        wanted = RunFilter(job=job.name, after_ns=due_ns, before_ns=due_ns + 1, limit=1)
        if await self._context.in_thread(find_runs, self._context.catalog, wanted):
            return
        lines = []
        late_seconds = (now_ns - due_ns) // SECOND_NS
        if late_seconds > LONGEST_SLEEP_SECONDS * 2:
            was_due = shown_time(due_ns, entry.zone)
            lines.append(f"was due {was_due}, while the director did not run")
        if len(due) > 1:
            lines.append(f"{len(due)} entries of its schedule were due; the highest level counts")
        try:
            record = new_run(
                self._plan(entry), scheduled_ns=due_ns, requested_by=f"schedule {job.schedule}"
            )
        except StrongroomError as error:
            self._warn(f"job {job.name} was due but cannot be started: {error}", job=job)
            return
        # Many may be due at once; `tick` looks for all of them together what may start.
        await self._runs.submit(record, lines, dispatched=False)

    def _plan(self, entry: _Entry) -> JobPlan:
        overrides = Overrides.of_schedule(entry.run)
        return plan(self._context.configuration, entry.job.name, overrides)

    def _zone(self, schedule: ScheduleSettings) -> ZoneInfo:
        name = schedule.time_zone or self._context.configuration.director.time_zone
        try:
            return time_zone(name)
        except UsageError as error:
            text = f"schedule {schedule.name}: {error}; the system's own is used"
            self._warn(text, schedule=schedule.name)
            return time_zone("")

    def _sleep_seconds(self) -> float:
        now_ns, now = clock.now_ns(), clock.elapsed_seconds()
        moments = [(one.next_ns - now_ns) / SECOND_NS for one in self._entries if one.next_ns]
        if (moment := self._runs.next_moment()) is not None:
            moments.append(moment - now)
        return max(0.01, min([*moments, LONGEST_SLEEP_SECONDS]))

    def _warn(self, text: str, job: JobSettings | None = None, schedule: str = "") -> None:
        if text:
            _log.warning(text)
            named = ("", "") if job is None else (job.name, job.client)
            self.warnings = [*self.warnings[-19:], ScheduleWarning(text, *named, schedule)]


def _rank(entry: _Entry) -> int:
    return _RANK.get(entry.run.level or entry.job.level, 0)
