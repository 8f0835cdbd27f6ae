"""Scripts around jobs: commands that cannot be split into words, and scripts that never run."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

from strongroom.config.language.diagnostics import ERROR, WARNING
from strongroom.config.settings.run_scripts import placed_run_scripts

if TYPE_CHECKING:
    from strongroom.config.feasibility.findings import FeasibilityFindings
    from strongroom.config.settings.job import JobSettings
    from strongroom.config.settings.run_scripts import RunScript

_QUOTING: Final = frozenset("\"'\\")
_BEFORE: Final = ("Before", "AfterVSS", "Always")
# Kinds of job whose scripts an agent runs.
_WITH_CLIENT: Final = ("backup", "restore")


def judge_run_scripts(findings: FeasibilityFindings, job: JobSettings) -> None:
    """Judge the scripts of a job and of its JobDefs."""
    if not job.run_scripts:
        return
    for script, place in placed_run_scripts(findings.job(job)):
        if script.console_commands and job.kind != "admin":
            message = "Console commands are given by jobs of Type Admin only"
            findings.at_directive(WARNING, "command", message, place.of("console"))
        if not script.commands:
            continue
        if script.when == "Never":
            message = "a RunScript without Runs When is never run"
            findings.at_directive(WARNING, "script", message, place.of())
        elif script.on_client and job.kind not in _WITH_CLIENT:
            message = f"a {job.type} job runs no scripts on a client; say Runs On Client = no"
            findings.at_directive(WARNING, "script", message, place.of())
        for command in script.commands:
            if fault := word_fault(command):
                severity = ERROR if job.enabled and _fails_job(script) else WARNING
                findings.at_directive(severity, "script", fault, place.of("command", command))


def word_fault(command: str) -> str:
    """Why a command cannot be split into words; "" if it can."""
    if command.strip() and not _QUOTING & set(command):
        return ""
    try:
        words = shlex.split(command)
    except ValueError as error:
        return f"the command {command!r} cannot be split into words: {error}"
    return "" if words else "a script has an empty command"


def _fails_job(script: RunScript) -> bool:
    return script.when in _BEFORE and script.fail_job_on_error
