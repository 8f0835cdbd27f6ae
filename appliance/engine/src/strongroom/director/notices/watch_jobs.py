"""What is wrong with jobs: failed, incomplete, missing, overdue, late, slow.

A job has one topic, so that one cause is reported once: an agent that is unreachable makes its job
missing, and the failed or overdue run that follows is the same incident. A success ends it.

Each path that its FileSet names and that is not there is its own incident, and so is a backup of
far less than usual, so that a second one is reported while a first one lasts. Only a backup that
made a snapshot says which are there. The names come from agents.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from zoneinfo import ZoneInfo

from blake3 import blake3

from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.base.printable import printable
from strongroom.base.quantities import counted
from strongroom.config.settings.job import JobSettings
from strongroom.config.settings.schedule import ScheduleSettings
from strongroom.director.catalog.incidents import Condition
from strongroom.director.catalog.run_history import (
    KINDS,
    JobHistory,
    job_histories,
    longest_good_run_seconds,
)
from strongroom.director.catalog.state import read_state, write_state
from strongroom.director.catalog.upkeep import EXPECTED_JOBS
from strongroom.director.context import DirectorContext
from strongroom.director.results.runs import Run
from strongroom.director.schedule.due_times import (
    due_around,
    entry_digest,
    longest_gap_seconds,
    schedule_of,
    time_zone,
    zone_of,
)
from strongroom.director.shown_text import shown_time
from strongroom.director.snapshots.shortfalls import shortfalls_of

TOPIC: Final = "job:"
PATH_TOPIC: Final = "path:"
# An agent can report any number of paths.
_MOST_NAMED: Final = 20
_LONGEST_NAME: Final = 300
# What time alone brings about; it is not judged while the clock is not trusted.
TIMELY: Final = frozenset(
    ("job-missing", "job-overdue", "job-late", "job-slow", "restore-test-overdue")
)
# The scheduler starts what is due within half a minute.
_GRACE_NS: Final = 600 * SECOND_NS
_MINUTE_NS: Final = 60 * SECOND_NS
_LOOK_BACK_NS: Final = 40 * 86400 * SECOND_NS
_HOUR: Final = 3600.0
# The level of a verify job that restores a sample.
_RESTORE_TEST: Final = "data"
_SCHEDULED: Final = "schedule "


@dataclass(slots=True)
class _Expectation:
    """Of a scheduled job: since when it is expected, and its due times around now."""

    schedule: ScheduleSettings
    zone: ZoneInfo
    since_ns: int
    last_due_ns: int = 0
    next_due_ns: int = 0
    gap_seconds: float = 0.0
    looked_ns: int = 0


@dataclass(slots=True)
class JobWatch:
    """Looks at all jobs, or one. For one thread at a time."""

    context: DirectorContext
    _expected: dict[str, _Expectation] = field(default_factory=dict)
    # Within one call: thousands of jobs have the same schedule.
    _due: dict[tuple[str, str, int], tuple[int, int, float]] = field(default_factory=dict)
    _configuration: object = None
    _system_zone: object = None

    def conditions(
        self, active: Sequence[Run], job: str = "", *, clock_is_trusted: bool = True
    ) -> tuple[list[Condition], set[str]]:
        """What is wrong, and the topics of jobs that cannot be judged yet. Blocks.

        active: the runs that have not ended; job: only this one.
        """
        configuration = self.context.configuration
        system_zone = time_zone("")
        if configuration is not self._configuration or system_zone is not self._system_zone:
            self._expect()
            self._configuration, self._system_zone = configuration, system_zone
        self._due.clear()
        recent_ns = 0 if job else max(1, clock.now_ns() - _LOOK_BACK_NS)
        histories = job_histories(self.context.catalog, job, recent_ns)
        names = [job] if job else list(configuration.jobs)
        found: list[Condition] = []
        undecided: set[str] = set()
        for name in names:
            settings = configuration.jobs.get(name)
            if settings is None or not settings.enabled or settings.kind not in KINDS:
                continue
            if settings.is_of_pool:
                continue  # of these the age of what has no copy counts: watch_copies
            mine = [one for one in active if one.job == name and one.client == settings.client]
            history = histories.get((name, settings.client))
            if recent_ns and (history is None or not history.is_whole):
                older = job_histories(self.context.catalog, name)
                history = older.get((name, settings.client))
            if _is_undecided(settings, history, mine):
                undecided.add(topic_of(settings))
            else:
                found += self._ended(settings, history)
            last = history.last if history is not None else None
            if last is not None and says_of_paths(settings, last):
                found += missing_paths(settings, last)
            else:
                undecided.add(topic_of_paths(settings))
            if clock_is_trusted:
                found += self._active(settings, mine, active)
                found += self._expectations(settings, history)
        return found, undecided

    def _ended(self, job: JobSettings, history: JobHistory | None) -> Iterator[Condition]:
        last = history.last if history is not None else None
        if last is None or last.state == "done":
            return
        is_test = job.kind == "verify" and last.level == _RESTORE_TEST
        log = f"strongroom log {last.id[:8]}"
        if last.state == "incomplete" and not is_test:
            if last.errors <= count_missing(last):
                return  # the paths are reported
            detail = f"{counted(last.errors, 'file')} could not be read; the rest is stored"
            title = f"{_named(job)} is incomplete"
            yield _about(job, "job-incomplete", title, last.ended_ns, detail, log)
            return
        if last.state == "cancelled":
            title = f"{_named(job)} did not run"
            event = _missing(job)
        else:
            what = "the restore test" if is_test else "the job"
            title = f"{_named(job, what)} failed"
            event = "restore-test-failed" if is_test else "job-failed"
        why = last.error or last.reason
        detail = f"[{last.error_id}] {why}" if last.error_id and why else why
        yield _about(job, event, title, last.ended_ns, detail, log)

    def _active(
        self, job: JobSettings, mine: list[Run], active: Sequence[Run]
    ) -> Iterator[Condition]:
        now_ns = clock.now_ns()
        for run in mine:
            is_scheduled = run.requested_by.startswith(_SCHEDULED) and run.attempt == 1
            late_ns = job.late_after_seconds * SECOND_NS
            begun_ns = run.started_ns or now_ns
            if begun_ns > now_ns:
                continue  # the clock was ahead then
            if is_scheduled and late_ns and begun_ns - run.scheduled_ns >= late_ns:
                yield self._late(job, run)
            if run.state != "running" or not run.started_ns:
                continue
            longest = float(job.slow_after_seconds)
            if not longest:
                usual = longest_good_run_seconds(
                    self.context.catalog, job.name, run.client, run.level
                )
                longest = 3 * usual + _HOUR if usual else 0.0
            if longest and now_ns - run.started_ns >= longest * SECOND_NS:
                title = f"{_named(job)} takes longer than expected"
                detail = f"it was expected to end within {longest / _HOUR:.1f} hours"
                behind = sum(f"run {run.id[:8]} " in one.reason for one in active)
                if behind:
                    detail += f"; runs that wait behind it: {behind}"
                remedy = f"strongroom watch {run.id[:8]}"
                yield _about(job, "job-slow", title, run.started_ns, detail, remedy)

    def _late(self, job: JobSettings, run: Run) -> Condition:
        if run.state == "waiting":
            title = f"{_named(job)} did not start"
            remedy = f"see why on {run.client or 'the director'}; strongroom status"
            return _about(job, _missing(job), title, run.scheduled_ns, run.reason, remedy)
        title = f"{_named(job)} is late"
        detail = run.reason if run.state == "queued" else "it has started after its time"
        remedy = "strongroom status; limits and priorities may have to be changed"
        return _about(job, "job-late", title, run.scheduled_ns, detail, remedy)

    def _expectations(self, job: JobSettings, history: JobHistory | None) -> Iterator[Condition]:
        expected = self._expected.get(job.name)
        if expected is None:
            return
        now_ns = clock.now_ns()
        self._follow(expected, now_ns)
        queued_ns = history.queued_ns if history is not None else 0
        due_ns = expected.last_due_ns
        is_past = expected.since_ns < due_ns <= now_ns - _GRACE_NS
        if is_past and queued_ns < due_ns - _GRACE_NS:
            title = f"{_named(job)} was not started"
            detail = f"it was due {shown_time(due_ns, expected.zone)}, and did not start"
            remedy = "strongroom status, and the director's log"
            yield _about(job, _missing(job), title, due_ns, detail, remedy)
        patience = float(job.overdue_after_seconds)
        if not patience and expected.gap_seconds:
            patience = max(1.5 * expected.gap_seconds, expected.gap_seconds + _HOUR)
        good_ns = history.good_started_ns if history is not None else 0
        since_ns = max(good_ns, 0) or expected.since_ns
        if patience and now_ns - since_ns > patience * SECOND_NS:
            is_test = job.kind == "verify"
            title = f"{_named(job, 'the restore test' if is_test else 'the job')} is overdue"
            last = shown_time(good_ns, expected.zone) if good_ns else "never"
            remedy = f"strongroom runs --job {job.name}"
            event = "restore-test-overdue" if is_test else "job-overdue"
            yield _about(job, event, title, since_ns, f"last success: {last}", remedy)

    def _expect(self) -> None:
        """Note since when each scheduled job is expected, in the catalog."""
        configuration, catalog = self.context.configuration, self.context.catalog
        now_ns = clock.now_ns()
        seen = read_state(catalog, EXPECTED_JOBS) or {}
        noted: dict[str, list[object]] = {}
        self._expected = {}
        for job in configuration.jobs.values():
            schedule = schedule_of(configuration, job)
            if schedule is None or not schedule.runs:
                continue
            digest = " ".join(sorted(entry_digest(run) for run in schedule.runs))
            known = seen.get(job.name)
            since_ns = known[1] if known and known[0] == digest else now_ns
            noted[job.name] = [digest, since_ns]
            zone = zone_of(configuration, schedule)
            self._expected[job.name] = _Expectation(schedule, zone, since_ns)
        if noted != seen:
            write_state(catalog, EXPECTED_JOBS, noted)

    def _follow(self, expected: _Expectation, now_ns: int) -> None:
        """Look up due times anew, once another is past."""
        is_known = expected.looked_ns and expected.looked_ns <= now_ns
        if is_known and (not expected.next_due_ns or now_ns < expected.next_due_ns):
            return
        expected.looked_ns = now_ns
        schedule, zone = expected.schedule, expected.zone
        # Runs are due at full minutes.
        minute_ns = now_ns - now_ns % _MINUTE_NS
        after_ns = max(expected.since_ns, minute_ns - _LOOK_BACK_NS)
        of = (schedule.name, zone.key, after_ns)
        if of not in self._due:
            around = due_around(schedule, after_ns, now_ns, zone)
            self._due[of] = (*around, longest_gap_seconds(schedule, now_ns, zone))
        expected.last_due_ns, expected.next_due_ns, expected.gap_seconds = self._due[of]


def _about(
    job: JobSettings,
    event: str,
    title: str,
    since_ns: int,
    detail: str,
    remedy: str,
    topic: str = "",
) -> Condition:
    """A condition of a job. topic: where it is of one of its paths."""
    return Condition(
        event=event,
        topic=topic or topic_of(job),
        title=title,
        remedy=remedy,
        since_ns=since_ns,
        detail=detail,
        job=job.name,
        client=job.client,
    )


def _missing(job: JobSettings) -> str:
    """The event of a job that did not start."""
    return "restore-test-overdue" if job.kind == "verify" else "job-missing"


def topic_of(job: JobSettings) -> str:
    """The topic of a job."""
    return f"{TOPIC}{job.name}@{job.client}"


def _is_undecided(job: JobSettings, history: JobHistory | None, active: list[Run]) -> bool:
    """Whether another attempt follows the failed run, or that is decided just now."""
    last = history.last if history is not None else None
    if last is None or last.state != "failed":
        return False
    follows = any(one.rescheduled_from and one.id != last.id for one in active)
    return not last.is_concluded or (follows and bool(job.reschedule_times))


def _named(job: JobSettings, what: str = "the job") -> str:
    return f"{what} {job.name} of {job.client}" if job.client else f"{what} {job.name}"


def topic_of_paths(job: JobSettings) -> str:
    """What the topics of a job's paths begin with."""
    return f"{PATH_TOPIC}{job.name}@{job.client}"


def job_part(topic: str) -> str:
    """The part of a path's topic that `topic_of_paths` gives."""
    return topic.rpartition(":")[0]


def says_of_paths(job: JobSettings, last: Run) -> bool:
    """Whether the last run says which paths are there."""
    return job.kind == "backup" and last.state in ("done", "incomplete")


def count_missing(last: Run) -> int:
    """How many paths the last run did not find."""
    count = last.summary.get("missing_paths")
    return max(0, count) if last.state == "incomplete" and isinstance(count, int) else 0


def missing_paths(job: JobSettings, last: Run) -> Iterator[Condition]:
    """What is missing as of the last run."""
    count = count_missing(last)
    names = _names(last.summary.get("missing_path_names"))[:count]
    for name in names:
        yield _path_condition(job, last, printable(name, _LONGEST_NAME), name)
    if (more := count - len(names)) > 0:
        others = "more paths" if names else "paths"
        yield _path_condition(job, last, f"{more:,} {others} that its FileSet names", "")
    for path, text in shortfalls_of(last.summary):
        yield _short(job, last, path, text)


def _path_condition(job: JobSettings, last: Run, what: str, name: str) -> Condition:
    title = f"the job {job.name} of {job.client} does not find {what}"
    detail = "it is not backed up; the rest of the FileSet is"
    remedy = f"restore it, or remove it from the FileSet; strongroom log {last.id[:8]}"
    topic = f"{topic_of_paths(job)}:{_digest(name)}"
    return _about(job, "path-missing", title, last.ended_ns, detail, remedy, topic)


def _short(job: JobSettings, last: Run, path: str, text: str) -> Condition:
    title = f"the backup {job.name} of {job.client} holds far less than usual"
    detail = f"{text}. It displaces no other snapshot"
    remedy = f"mount or fix it; if it is intended: strongroom accept {last.id[:8]}"
    topic = f"{topic_of_paths(job)}:{_digest(f'short {path}')}"
    return _about(job, "backup-short", title, last.ended_ns, detail, remedy, topic)


def _digest(name: str) -> str:
    return blake3(name.encode("utf-8", "backslashreplace")).hexdigest(8)


def _names(reported: Any) -> list[str]:
    if not isinstance(reported, list):
        return []
    names = dict.fromkeys(one for one in reported if isinstance(one, str) and one)
    return list(names)[:_MOST_NAMED]
