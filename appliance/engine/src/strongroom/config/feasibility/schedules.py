"""Schedules: Runs that are never due, and levels that the jobs they start cannot have."""

from __future__ import annotations

from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from strongroom.config.language.diagnostics import ERROR, WARNING
from strongroom.config.settings.levels import level_of
from strongroom.config.values.run_days import is_ever_due
from strongroom.config.values.run_schedule import ScheduleRun
from strongroom.errors import UsageError

if TYPE_CHECKING:
    from strongroom.config.feasibility.findings import FeasibilityFindings
    from strongroom.config.model import Resource
    from strongroom.config.settings.job import JobSettings


def judge_schedules(findings: FeasibilityFindings) -> None:
    """Judge all Schedule resources, and the jobs that name them."""
    configuration, component = findings.configuration, findings.component
    if component.daemon is not None:
        _time_zone(findings, component.daemon, configuration.director.time_zone)
    jobs_of: dict[str, list[JobSettings]] = {}
    for job in configuration.jobs.values():
        if job.schedule:
            jobs_of.setdefault(job.schedule, []).append(job)
    for name, schedule in configuration.schedules.items():
        resource = findings.resource("Schedule", name)
        _time_zone(findings, resource, schedule.time_zone)
        for directive in resource.directives("run"):
            run = directive.value
            assert isinstance(run, ScheduleRun)
            if not is_ever_due(run):
                message = f"this Run of Schedule {name} is never due: no day fits all it says"
                findings.at_directive(WARNING, "never-due", message, directive)
            for job in jobs_of.get(name, ()):
                if fault := _level_fault(job, run):
                    severity = ERROR if job.enabled and schedule.enabled else WARNING
                    findings.at_directive(severity, "level", fault, directive)


def _level_fault(job: JobSettings, run: ScheduleRun) -> str:
    if not run.level:
        return ""
    try:
        level_of(job.kind, run.level)
    except UsageError as error:
        return f"Run starts {job.type} job {job.name} with a level it cannot have: {error}"
    return ""


def _time_zone(findings: FeasibilityFindings, resource: Resource, name: str) -> None:
    if not name:
        return
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        # A machine that knows no zones at all lacks a package; the configuration may be right.
        if available_timezones():
            message = f"there is no time zone {name!r}, so the system's own is used"
            findings.at(WARNING, "time-zone", message, resource, "time_zone")
