"""Jobs that could not run, or not as they are written.

Their levels, what a Verify job verifies, from where to where a Copy job copies, the console
commands of Admin jobs, scripts, and the jobs that are started along with them.
"""

from __future__ import annotations

import re
from typing import Final

from strongroom.base.errors import StrongroomError, UsageError
from strongroom.config.language.diagnostics import ERROR, WARNING
from strongroom.config.settings.admin_commands import parse_admin_command
from strongroom.config.settings.configuration import DirectorConfiguration
from strongroom.config.settings.findings import Findings
from strongroom.config.settings.job import (
    LEVEL_OF_RUN,
    JobSettings,
    RunScript,
    parse_companion,
    place_within,
    placed_run_scripts,
)
from strongroom.config.settings.levels import NOTHING_TO_DO, level_of
from strongroom.config.settings.messages import word_fault
from strongroom.config.values.run_schedule import ScheduleRun

SELECTION_TYPES: Final = ("PoolUncopiedJobs", "Job", "Client")
_BEFORE: Final = ("Before", "AfterVSS", "Always")
# Kinds of job whose scripts an agent runs.
_WITH_CLIENT: Final = ("backup", "restore")
# A level that the run of a job of this kind may have, for `%l`.
_LEVELS: Final = {"backup": "full", "verify": "client"}


def job_cannot_run(
    findings: Findings, job: JobSettings, code: str, message: str, *attributes: str
) -> None:
    """A job can never run: an error, of a disabled job a warning. See `Findings.at`."""
    severity = ERROR if job.enabled else WARNING
    resource = findings.resource("Job", job.name)
    findings.at(severity, code, f"{job.type} job {job.name} {message}", resource, *attributes)


def job_warning(
    findings: Findings, job: JobSettings, code: str, message: str, *attributes: str
) -> None:
    """A job does not run as it is written."""
    resource = findings.resource("Job", job.name)
    findings.warning(code, f"{job.type} job {job.name} {message}", resource, *attributes)


def check_job(findings: Findings, configuration: DirectorConfiguration, job: JobSettings) -> None:
    """Report all that is wrong with one Job resource."""
    _JobCheck(findings, configuration, job).check()


class _JobCheck:
    def __init__(
        self, findings: Findings, configuration: DirectorConfiguration, job: JobSettings
    ) -> None:
        self.findings = findings
        self.configuration = configuration
        self.job = job
        self.resource = findings.resource("Job", job.name)
        self.severity = ERROR if job.enabled else WARNING

    def cannot_run(self, code: str, message: str, *attributes: str) -> None:
        job_cannot_run(self.findings, self.job, code, message, *attributes)

    def warn(self, code: str, message: str, *attributes: str) -> None:
        job_warning(self.findings, self.job, code, message, *attributes)

    def check(self) -> None:
        job = self.job
        if (refusal := NOTHING_TO_DO.get(job.type)) is not None:
            self.cannot_run("type", refusal, "type")
            return
        if job.speaks_ndmp:
            self._ndmp()
        try:
            level_of(job.kind, job.level)
        except UsageError as error:
            self.cannot_run("level", f"cannot have its level: {error}", "level")
        if job.kind == "verify":
            self._verify()
        elif job.kind == "restore":
            self._restore()
        elif job.kind == "copy":
            self._copy()
        elif job.kind == "admin":
            self._admin()
        if job.kind in ("backup", "admin"):
            self._storage()
        if job.maximum_concurrent_jobs == 0:
            message = "never starts: its Maximum Concurrent Jobs is 0"
            self.warn("limit", message, "maximum_concurrent_jobs")
        if job.run_scripts:
            self._run_scripts()
        if job.companions:
            self._companions()

    def _ndmp(self) -> None:
        message = "speaks NDMP, which is not supported"
        if self.job.kind == "restore":
            self.warn("protocol", f"{message}; restores take another Restore job", "protocol")
        else:
            message += (
                ": back the files up with an agent that has them mounted, or set Enabled = no"
            )
            self.cannot_run("protocol", message, "protocol")

    def _storage(self) -> None:
        """A job that takes its own Storage finds all of them disabled."""
        if self.configuration.storage_of(self.job):
            return
        schedule = self.configuration.schedules.get(self.job.schedule)
        if schedule is not None and all(run.storage for run in schedule.runs):
            return
        message = "cannot run: every Storage of it (or of its Pool) is disabled"
        self.warn("storage", message, "storage")

    def _verify(self) -> None:
        verified = self.configuration.jobs.get(self.job.job_to_verify)
        if verified is None:
            message = "needs Job To Verify, the backup whose snapshots it verifies"
            self.cannot_run("job-to-verify", message)
        elif verified.kind != "backup":
            message = (
                f"verifies {verified.name}, a job of Type {verified.type}, which has no snapshots"
            )
            self.cannot_run("job-to-verify", message, "job_to_verify")
        else:
            self._reach(self.configuration.storage_of(verified))

    def _restore(self) -> None:
        job = self.job
        if job.schedule:
            message = f"is not started by its Schedule {job.schedule}: a restore needs a snapshot"
            self.warn("schedule", message, "schedule")
        if job.run_on_incoming_connect_interval_seconds:
            message = "is not started when its client connects: a restore needs a snapshot"
            self.warn("schedule", message, "run_on_incoming_connect_interval_seconds")
        if job.where and (not job.where.startswith("/") or ".." in job.where.split("/")):
            message = f"cannot restore to {job.where}: Where is an absolute path without `..`"
            self.warn("where", message, "where")

    def _copy(self) -> None:
        job = self.job
        if job.type == "Migrate":
            message = "copies, and removes nothing: the originals stay until their retention ends"
            self.warn("type", message, "type")
        if job.selection_type and job.selection_type not in SELECTION_TYPES:
            known = ", ".join(SELECTION_TYPES)
            message = f"cannot select by {job.selection_type}: there are {known}"
            self.cannot_run("selection", message, "selection_type")
        try:
            re.compile(job.selection_pattern)
        except re.error as error:
            message = f"has a Selection Pattern that is not a regular expression: {error}"
            self.cannot_run("selection", message, "selection_pattern")
        schedule = self.configuration.schedules.get(job.schedule)
        # The ways in which the job is started; None as it is itself.
        runs = (schedule.runs if schedule is not None else ()) or (None,)
        faults = [self._copy_fault(run) for run in runs]
        for fault in dict.fromkeys(filter(None, faults)):
            if all(faults):
                self.cannot_run("next-pool", fault, "next_pool", "pool")
            else:
                self.warn("next-pool", f"as its Schedule has it {fault}", "next_pool", "pool")

    def _copy_fault(self, run: ScheduleRun | None) -> str:
        """What a run lacks, "" for nothing."""
        configuration, job = self.configuration, self.job
        source = (run.storage if run is not None else "") or configuration.storage_of(job)
        if not source:
            return "needs a Storage (its own or its Pool's) to copy from"
        pool = (run.pool if run is not None else "") or job.pool
        target_pool = configuration.next_pool_of(job, pool, (run and run.next_pool) or "")
        if target_pool is None:
            return "needs a Next Pool (its own or its Pool's) to copy to"
        if not target_pool.storages:
            return f"cannot copy to its Next Pool {target_pool.name}, which has no Storage"
        target = target_pool.storages[0]
        if target == source:
            return f"would copy Storage {source} to itself: its Next Pool needs another Storage"
        self._reach(source, target)
        return ""

    def _admin(self) -> None:
        """The console commands of an Admin job's scripts."""
        for script, place in placed_run_scripts(self.resource):
            for text in script.console_commands:
                fault = ""
                try:
                    command = parse_admin_command(text)
                except UsageError as error:
                    fault = str(error)
                else:
                    storage = command.storage or self.configuration.storage_of(self.job)
                    if storage and storage not in self.configuration.storages:
                        fault = f"`{text}` names the Storage {storage}, which is not defined"
                    elif command.needs_storage:
                        self._reach(storage)
                if fault:
                    directive = place_within(place, "console", text)
                    self.findings.at_directive(self.severity, "command", fault, directive)

    def _reach(self, *storages: str) -> None:
        """Warn of each Storage ("" is passed over) that a job of the director's cannot reach.

        A configuration of Bareos knows no Repository, so this is no error.
        """
        for name in dict.fromkeys(storages):
            if name and not self.configuration.storage(name).repository:
                message = f"cannot run: Storage {name} needs Repository, the director's way to it"
                self.warn("repository", message)

    def _run_scripts(self) -> None:
        """Commands that cannot be split into words, and scripts that never run."""
        job, warn = self.job, self.findings.at_directive
        for script, place in placed_run_scripts(self.resource):
            if script.console_commands and job.kind != "admin":
                message = "Console commands are only for jobs of Type Admin"
                warn(WARNING, "command", message, place_within(place, "console"))
            if not script.commands:
                continue
            if script.when == "Never":
                warn(WARNING, "script", "a RunScript without Runs When is never run", place)
            elif script.on_client and job.kind not in _WITH_CLIENT:
                message = f"a {job.type} job runs no scripts on a client; set Runs On Client = no"
                warn(WARNING, "script", message, place)
            for command in script.commands:
                if fault := word_fault(command):
                    severity = self.severity if _fails_job(script) else WARNING
                    warn(severity, "script", fault, place_within(place, "command", command))

    def _companions(self) -> None:
        """The `Run` directives: whether what is to be started along with the job can be."""
        for directive in self.resource.directives("run"):
            for text in directive.value:
                try:
                    self._companion(text)
                except StrongroomError as error:
                    message = f"Run of job {self.job.name}: {error}"
                    self.findings.at_directive(self.severity, "run", message, directive)

    def _companion(self, text: str) -> None:
        """Raise UsageError or UnknownNameError for what cannot be started."""
        configuration = self.configuration
        written = parse_companion(text)
        companion = written.at_level(_LEVELS.get(self.job.kind, ""))
        for name, lookup in (
            (written.client, configuration.client),
            (written.fileset, configuration.fileset),
            (written.storage, configuration.storage),
            (written.pool, configuration.pool),
        ):
            if name and LEVEL_OF_RUN not in name:
                lookup(name)
        if LEVEL_OF_RUN in written.job:
            return
        started = configuration.job(companion.job)
        if started.kind == "restore":
            raise UsageError(
                f"{started.name} is a restore job, which needs a snapshot to start with"
            )
        level_of(started.kind, companion.level or started.level)


def _fails_job(script: RunScript) -> bool:
    return script.when in _BEFORE and script.fail_job_on_error
