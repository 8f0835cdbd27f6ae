"""Plans the scheduled runs of the coming year, and reports those that cannot be started.

Each Run of a Schedule is planned once for each job that it starts, with the same code that plans
the run when it is due; what may differ between two due times of a Run is nothing that a plan checks
. Without it a job that can never be started would be noticed when its run is missing.

An error is what can never be started, a warning what may be a mistake: a job that waits for a
disabled client, a verify job of backups that no one makes, a Run that is first due in years. What
`config.settings` has reported is not repeated.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final, NamedTuple

from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.base.errors import StrongroomError
from strongroom.config.language.diagnostics import ERROR, WARNING, Diagnostics
from strongroom.config.model import ComponentConfiguration
from strongroom.config.settings.configuration import DirectorConfiguration
from strongroom.config.settings.findings import Findings
from strongroom.config.settings.job import JobSettings
from strongroom.config.settings.job_checks import job_cannot_run, job_warning
from strongroom.config.settings.levels import level_of
from strongroom.config.trees.tree import Directive
from strongroom.config.values.run_days import is_ever_due
from strongroom.config.values.run_schedule import ScheduleRun
from strongroom.director.runs.requests import Overrides, new_run
from strongroom.director.schedule.due_times import next_due_ns, zone_of

_YEAR_NS: Final = 366 * 86400 * SECOND_NS


class _Planned(NamedTuple):
    """A Run of a Schedule that is due sometimes, and its directive."""

    run: ScheduleRun
    directive: Directive


def plan_year(
    component: ComponentConfiguration,
    configuration: DirectorConfiguration,
    diagnostics: Diagnostics,
) -> None:
    """Plan the scheduled runs of a director whose configuration has no errors so far."""
    _Year(Findings(component, diagnostics), configuration).plan_all()


class _Year:
    def __init__(self, findings: Findings, configuration: DirectorConfiguration) -> None:
        self._findings = findings
        self._configuration = configuration
        self._runs: dict[str, list[_Planned]] = {}
        self._started: set[str] = set()

    def plan_all(self) -> None:
        for job in self._configuration.jobs.values():
            if job.schedule and job.enabled and job.kind != "restore":
                self._job(job)
        for job in self._configuration.jobs.values():
            if job.kind == "verify" and job.name in self._started:
                self._verified(job)

    def _job(self, job: JobSettings) -> None:
        """Judge one job that a schedule starts."""
        schedule = self._configuration.schedules[job.schedule]
        client = self._configuration.clients.get(job.client)
        if not schedule.enabled:
            self._not_started(job, f"its Schedule {schedule.name} is disabled")
            return
        if client is not None and not client.enabled:
            self._not_started(job, f"its Client {client.name} is disabled", "client")
            return
        runs = self._runs_of(job.schedule)
        if not runs:
            reason = "no Run of it is ever due" if schedule.runs else "it has no Run"
            message = f"is never started by its Schedule {schedule.name}: {reason}"
            job_cannot_run(self._findings, job, "never-due", message, "schedule")
            return
        self._started.add(job.name)
        for planned in runs:
            self._run(job, planned)

    def _run(self, job: JobSettings, planned: _Planned) -> None:
        """Plan one Run for one job, as when it is due."""
        run, directive = planned
        configuration = self._configuration
        if not (run.storage or configuration.storage_of(job)):
            # Every Storage is disabled, which was reported of the job.
            return
        if run.storage and not configuration.storage(run.storage).enabled:
            message = (
                f"this Run starts job {job.name} with Storage {run.storage}, which is disabled"
            )
            self._findings.at_directive(WARNING, "disabled", message, directive)
        try:
            new_run(configuration, job.name, Overrides.of(run))
        except StrongroomError as error:
            message = f"this Run cannot start job {job.name}: {error}"
            self._findings.at_directive(ERROR, "schedule", message, directive)
            return
        if job.kind == "verify" and run.level:
            meant, done = level_of(job.kind, job.level), level_of(job.kind, run.level)
            if job.level and meant != done:
                message = (
                    f"this Run starts Verify job {job.name} with Level {run.level} in place of its "
                    f"own Level {job.level}; leave the level out of the Run to keep that"
                )
                self._findings.at_directive(WARNING, "level", message, directive)

    def _verified(self, job: JobSettings) -> None:
        """A verify job that is started finds new snapshots only where its backups are made."""
        verified = self._configuration.job(job.job_to_verify)
        if not verified.enabled:
            reason = "which is disabled"
        elif verified.schedule and verified.name not in self._started:
            reason = "which is never started"
        else:
            return
        message = f"verifies {verified.name}, {reason}: there is nothing new to verify"
        job_warning(self._findings, job, "job-to-verify", message, "job_to_verify")

    def _runs_of(self, name: str) -> list[_Planned]:
        """The Runs of a Schedule that are ever due; each is judged once."""
        known = self._runs.get(name)
        if known is not None:
            return known
        schedule = self._configuration.schedules[name]
        zone = zone_of(self._configuration, schedule)
        now_ns = clock.now_ns()
        found = self._runs[name] = []
        for directive in self._findings.resource("Schedule", name).directives("run"):
            run = directive.value
            assert isinstance(run, ScheduleRun)
            if not is_ever_due(run):
                continue
            found.append(_Planned(run, directive))
            due_ns = next_due_ns(run, now_ns, zone)
            if due_ns is None or due_ns > now_ns + _YEAR_NS:
                when = "" if due_ns is None else f", but first on {_day(due_ns)}"
                message = f"this Run of Schedule {name} is not due within a year{when}"
                self._findings.at_directive(WARNING, "rarely-due", message, directive)
        return found

    def _not_started(self, job: JobSettings, reason: str, attribute: str = "schedule") -> None:
        message = f"is never started: {reason}; set Enabled = no if that is intended"
        job_warning(self._findings, job, "disabled", message, attribute)


def _day(moment_ns: int) -> str:
    return f"{datetime.fromtimestamp(moment_ns // SECOND_NS, UTC):%Y-%m-%d}"
