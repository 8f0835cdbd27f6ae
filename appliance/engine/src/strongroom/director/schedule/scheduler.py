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

import logging
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.base.errors import StrongroomError, UsageError
from strongroom.config.settings.job import JobSettings
from strongroom.config.settings.schedule import ScheduleSettings
from strongroom.config.values.run_schedule import ScheduleRun
from strongroom.director.catalog.runs import find_runs
from strongroom.director.catalog.state import (
    keep_due,
    last_due,
    note_due,
    read_state,
    write_state,
)
from strongroom.director.catalog.upkeep import redate
from strongroom.director.context import DirectorContext
from strongroom.director.results.runs import Run, RunFilter
from strongroom.director.results.status import ComingRuns, DueRun
from strongroom.director.runs.lifecycle import Runs
from strongroom.director.runs.requests import Overrides, new_run
from strongroom.director.schedule.due_times import (
    due_times_ns,
    entry_digest,
    last_due_ns,
    next_due_ns,
    schedule_of,
    time_zone,
    zone_text,
)
from strongroom.director.shown_text import shown_time

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
    """The next due time of each Run, and the loop that starts them. Of the event loop."""

    def __init__(self, context: DirectorContext, runs: Runs) -> None:
        self._context = context
        self._runs = runs
        self._entries: list[_Entry] = []
        self._alarm = runs.alarm
        self._saved_at = 0.0
        self._system_zone = time_zone("")
        self.guard = context.guard
        self.warnings: list[ScheduleWarning] = []

    async def load(self) -> None:
        """Start with the state in the catalog and the schedules of the configuration."""
        saved = await self._context.ask(read_state, _CLOCK_STATE)
        self._warn(self.guard.load(saved))
        await self.reload()

    async def reload(self) -> None:
        """Apply the schedules of the configuration, after it has changed."""
        seen = await self._context.ask(last_due)
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
        await self._context.ask(keep_due, keys)
        await self._context.ask(note_due, fresh)
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
                _log.exception("internal error in the scheduler; it continues")
                seconds = RETRY_SECONDS
            self._alarm.reset()
            await self._alarm.wait(max(seconds, self._sleep_seconds()))

    def wake(self) -> None:
        """Check due times now."""
        self._alarm.ring()

    async def tick(self) -> None:
        """Start due runs; end those beyond a time limit."""
        jump = self.guard.observe()
        self._warn(jump)
        if (wrong := self.guard.wrong) is not None:
            count = await self._context.ask(redate, wrong)
            self.guard.wrong = None
            _log.warning("times that the wrong clock wrote were corrected in %d rows", count)
        if (system_zone := time_zone("")) is not self._system_zone:
            _log.warning("the system's time zone has changed to %s", zone_text(system_zone))
            await self.reload()
        now = clock.elapsed_seconds()
        if jump or now - self._saved_at >= _SAVE_CLOCK_SECONDS:
            self._saved_at = now
            saved = self.guard.saved()
            await self._context.ask(write_state, _CLOCK_STATE, saved)
        await self._start_due(clock.now_ns())
        await self._runs.tick()

    def due(self, until_ns: int) -> Iterator[DueRun]:
        """What schedules will start until then, the next of each Run; the earliest first."""
        found = []
        for entry in self._entries:
            if entry.next_ns is not None and entry.next_ns <= until_ns:
                planned = self._planned(entry)
                if planned is not None:
                    found.append((entry.next_ns, planned.priority, planned.job, planned))
        found.sort(key=itemgetter(0, 1, 2))
        return (replace(planned, due_ns=due_ns) for due_ns, _, _, planned in found)

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
            due = self._planned(entry) if times_ns else None
            if due is not None:
                found.append(ComingRuns(replace(due, due_ns=times_ns[0]), times_ns))
        return found

    def next_of_job(self, jobs: Collection[str]) -> dict[str, int]:
        """Job -> when it is due next, of these."""
        found: dict[str, int] = {}
        wanted = frozenset(jobs)
        for entry in self._entries:
            name = entry.job.name
            if entry.next_ns is not None and name in wanted:
                found[name] = min(found.get(name, entry.next_ns), entry.next_ns)
        return found

    def _planned(self, entry: _Entry) -> DueRun | None:
        """What an entry starts; None where it cannot, which it will tell when it is due."""
        if not entry.is_planned:
            entry.starts, entry.is_planned = self._first_run(entry), True
        return entry.starts

    def _first_run(self, entry: _Entry) -> DueRun | None:
        try:
            planned = self._run_of(entry)
        except StrongroomError:
            return None
        return DueRun(
            job=planned.job,
            client=planned.client,
            level=planned.level,
            pool=planned.pool,
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
            await self._context.ask(note_due, noted)

    def _see(self, entry: _Entry, now_ns: int, noted: dict[tuple[str, str], int]) -> None:
        entry.seen_ns = noted[entry.key] = now_ns
        entry.next_ns = next_due_ns(entry.run, now_ns, entry.zone)

    async def _start(self, due: list[tuple[int, _Entry]], now_ns: int) -> None:
        """One run for all entries of a job that are due."""
        due_ns, entry = max(due, key=lambda one: (_rank(one[1]), one[0]))
        job = entry.job
        wanted = RunFilter(job=job.name, after_ns=due_ns, before_ns=due_ns + 1, limit=1)
        if await self._context.ask(find_runs, wanted):
            return
        lines = []
        late_seconds = (now_ns - due_ns) // SECOND_NS
        if late_seconds > LONGEST_SLEEP_SECONDS * 2:
            was_due = shown_time(due_ns, entry.zone)
            lines.append(f"was due {was_due}, while the director did not run")
        if len(due) > 1:
            lines.append(f"{len(due)} entries of its schedule were due; the highest level counts")
        try:
            record = self._run_of(entry, due_ns)
        except StrongroomError as error:
            self._warn(f"job {job.name} was due but cannot be started: {error}", job=job)
            return
        # Many may be due at once; `tick` looks for all of them together what may start.
        await self._runs.submit(record, lines, dispatched=False)

    def _run_of(self, entry: _Entry, due_ns: int = 0) -> Run:
        """The run that an entry starts. Raises StrongroomError."""
        return new_run(
            self._context.configuration,
            entry.job.name,
            Overrides.of(entry.run),
            scheduled_ns=due_ns,
            requested_by=f"schedule {entry.job.schedule}",
        )

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
