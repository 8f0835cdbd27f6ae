"""The Machine resource: the backup of one machine that a systemd timer starts."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from strongroom.base.errors import UsageError
from strongroom.config.language.diagnostics import ERROR
from strongroom.config.model import Resource
from strongroom.config.settings.findings import Findings
from strongroom.config.settings.messages import check_notices
from strongroom.config.settings.pool import KeepRules
from strongroom.config.settings.reading import settings_of
from strongroom.config.values.run_days import calendar_events, is_ever_due
from strongroom.engine.stores.place import FolderLocation, RemoteLocation, place_of


@dataclass(frozen=True, slots=True)
class MachineSettings:
    """A machine. events: when, as systemd writes it. keep: None without Keep directives.

    notify_command, success_command: "" for none. check_parts: 0 for no check.
    """

    name: str
    repository: str
    passphrase_file: str
    fileset: str
    events: tuple[str, ...]
    randomized_delay_seconds: int
    keep: KeepRules | None
    minimum_retention_seconds: int
    check_parts: int
    notify_command: str
    success_command: str

    @classmethod
    def of(cls, machine: Resource) -> MachineSettings:
        """Those of a Machine resource. Raises UsageError for a Run that no timer can say."""
        runs = [directive.value for directive in machine.directives("run")]
        return settings_of(
            cls,
            machine,
            events=tuple(event for run in runs for event in calendar_events(run)),
            keep=KeepRules.of(machine),
        )


def check_machine(findings: Findings) -> None:
    """Report what the schedule of one machine could not carry out."""
    machine = findings.component.daemon
    if machine is None:
        return
    if fault := _repository_fault(machine.text("repository")):
        message = f"Repository of {machine.name}: {fault}"
        findings.error("repository", message, machine, "repository")
    if not machine.text("passphrase_file").startswith("/"):
        message = f"Passphrase File of {machine.name} is not an absolute path"
        findings.error("passphrase", message, machine, "passphrase_file")
    for directive in machine.directives("run"):
        try:
            calendar_events(directive.value)
        except UsageError as error:
            findings.at_directive(ERROR, "schedule", str(error), directive)
        else:
            if not is_ever_due(directive.value):
                message = "this Run is never due: no day matches all of it"
                findings.at_directive(ERROR, "never-due", message, directive)
    for name, shown in (("notify_command", "Notify"), ("success_command", "Success")):
        try:
            shlex.split(machine.text(name))
        except ValueError as error:
            message = f"{shown} Command of {machine.name} cannot be read: {error}"
            findings.error("command", message, machine, name)
    for messages in findings.component.of_type("Messages").values():
        check_notices(findings, messages, is_sandboxed=False)
        for block in messages.blocks("notify"):
            for name in ("digest_at", "maximum_per_hour"):
                if block.is_set(name):
                    shown = block.spec.by_attribute[name].shown_name
                    message = f"{shown} has no effect without a director"
                    findings.warning("messages", message, block, name)
    if machine.is_set("minimum_retention_seconds") and KeepRules.of(machine) is None:
        message = f"Minimum Retention of {machine.name} has no effect without a Keep directive"
        findings.warning("retention", message, machine, "minimum_retention_seconds")


def _repository_fault(text: str) -> str:
    """Why a timer cannot back up to a place, "" if it can."""
    try:
        place = place_of(text)
    except UsageError as error:
        return str(error)
    if isinstance(place, FolderLocation) and not text.startswith("/"):
        return "it is neither an absolute path nor a place such as ssh://HOST/PATH"
    if isinstance(place, RemoteLocation) and not place.socket_path:
        return "a storage daemon over the network needs an agent; here it is named as unix:PATH"
    return ""
