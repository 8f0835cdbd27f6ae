"""The Machine resource: where its repository lies, when it runs, what its commands are."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from strongroom.config.feasibility.findings import report, report_directive
from strongroom.config.language.diagnostics import ERROR, WARNING
from strongroom.config.settings.keep_rules import KeepRules
from strongroom.config.values.calendar_events import calendar_events
from strongroom.config.values.run_days import is_ever_due
from strongroom.config.values.run_schedule import ScheduleRun
from strongroom.errors import UsageError

if TYPE_CHECKING:
    from strongroom.config.language.diagnostics import Diagnostics
    from strongroom.config.model import ComponentConfiguration


def judge_machine(component: ComponentConfiguration, diagnostics: Diagnostics) -> None:
    """Judge what the schedule of one machine could not carry out."""
    machine = component.daemon
    if machine is None:
        return
    place = machine.text("repository")
    if not place.startswith(("/", "unix:/")):
        message = f"Repository of {machine.name} is neither an absolute path nor unix:PATH"
        report(diagnostics, ERROR, "repository", message, machine, "repository")
    if not machine.text("passphrase_file").startswith("/"):
        message = f"Passphrase File of {machine.name} is no absolute path"
        report(diagnostics, ERROR, "passphrase", message, machine, "passphrase_file")
    for directive in machine.directives("run"):
        run = directive.value
        assert isinstance(run, ScheduleRun)
        try:
            calendar_events(run)
        except UsageError as error:
            report_directive(diagnostics, ERROR, "schedule", str(error), directive)
        else:
            if not is_ever_due(run):
                message = "this Run is never due: no day fits all it says"
                report_directive(diagnostics, ERROR, "never-due", message, directive)
    for name, shown in (("notify_command", "Notify"), ("success_command", "Success")):
        try:
            shlex.split(machine.text(name))
        except ValueError as error:
            message = f"{shown} Command of {machine.name} cannot be read: {error}"
            report(diagnostics, ERROR, "command", message, machine, name)
    if machine.is_set("minimum_retention_seconds") and KeepRules.of(machine) is None:
        message = f"Minimum Retention of {machine.name} has no effect without a Keep directive"
        report(diagnostics, WARNING, "retention", message, machine, "minimum_retention_seconds")
