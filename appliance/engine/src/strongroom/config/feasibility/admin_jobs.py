"""Jobs of Type Admin: the console commands of their scripts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strongroom.config.feasibility.repositories import judge_reach
from strongroom.config.language.diagnostics import ERROR, WARNING
from strongroom.config.settings.admin_commands import parse_admin_command
from strongroom.config.settings.run_scripts import placed_run_scripts
from strongroom.errors import UsageError

if TYPE_CHECKING:
    from strongroom.config.feasibility.findings import FeasibilityFindings
    from strongroom.config.settings.job import JobSettings


def judge_admin_job(findings: FeasibilityFindings, job: JobSettings) -> None:
    """Judge the console commands of a job."""
    configuration = findings.configuration
    severity = ERROR if job.enabled else WARNING
    for script, place in placed_run_scripts(findings.job(job)):
        for text in script.console_commands:
            fault = ""
            try:
                command = parse_admin_command(text)
            except UsageError as error:
                fault = str(error)
            else:
                storage = command.storage or configuration.storage_of(job)
                if storage and storage not in configuration.storages:
                    fault = f"`{text}` names the Storage {storage}, which is not defined"
                elif command.needs_storage:
                    judge_reach(findings, job, storage)
            if fault:
                findings.at_directive(severity, "command", fault, place.of("console", text))
