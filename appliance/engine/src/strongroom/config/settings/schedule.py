"""Schedule resources: when the jobs that name them are started."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from strongroom.base.errors import UsageError
from strongroom.config.language.diagnostics import ERROR, WARNING
from strongroom.config.model import Resource
from strongroom.config.settings.findings import Findings
from strongroom.config.settings.job import JobSettings
from strongroom.config.settings.levels import level_of
from strongroom.config.settings.reading import settings_of
from strongroom.config.values.run_days import is_ever_due
from strongroom.config.values.run_schedule import ScheduleRun


@dataclass(frozen=True, slots=True)
class ScheduleSettings:
    """A schedule. time_zone: an IANA name, "" for that of the Director. runs: each once."""

    name: str
    enabled: bool
    time_zone: str
    runs: tuple[ScheduleRun, ...]

    @classmethod
    def of(cls, schedule: Resource) -> ScheduleSettings:
        """Those of a Schedule resource."""
        stated = [directive.value for directive in schedule.directives("run")]
        runs = dict.fromkeys(run for run in stated if isinstance(run, ScheduleRun))
        return settings_of(cls, schedule, runs=tuple(runs))


def check_schedule(
    findings: Findings, schedule: ScheduleSettings, jobs: Iterable[JobSettings]
) -> None:
    """Report Runs that are never due, and levels that the jobs they start cannot have."""
    resource = findings.resource("Schedule", schedule.name)
    check_time_zone(findings, resource, schedule.time_zone)
    for directive in resource.directives("run"):
        run = directive.value
        assert isinstance(run, ScheduleRun)
        if not is_ever_due(run):
            message = f"this Run of Schedule {schedule.name} is never due: no day matches all of it"
            findings.at_directive(WARNING, "never-due", message, directive)
        for job in jobs:
            if fault := _level_fault(job, run):
                severity = ERROR if job.enabled and schedule.enabled else WARNING
                findings.at_directive(severity, "level", fault, directive)


def check_time_zone(findings: Findings, resource: Resource, name: str) -> None:
    """Report a time zone of a Director or a Schedule that is not known."""
    if not name:
        return
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        # A machine that knows no zones at all lacks a package; the configuration may be right.
        if available_timezones():
            message = f"there is no time zone {name!r}, so the system's own is used"
            findings.warning("time-zone", message, resource, "time_zone")


def _level_fault(job: JobSettings, run: ScheduleRun) -> str:
    if not run.level:
        return ""
    try:
        level_of(job.kind, run.level)
    except UsageError as error:
        return f"Run starts {job.type} job {job.name} with a level it cannot have: {error}"
    return ""
