"""The Machine resource: the backup of one machine that a systemd timer starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from strongroom.config.settings.keep_rules import KeepRules
from strongroom.config.values.calendar_events import calendar_events

if TYPE_CHECKING:
    from strongroom.config.model import Resource
    from strongroom.config.values.run_schedule import ScheduleRun


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
        return cls(
            name=machine.name,
            repository=machine.text("repository"),
            passphrase_file=machine.text("passphrase_file"),
            fileset=machine.name_of("fileset"),
            events=tuple(event for run in runs_of(machine) for event in calendar_events(run)),
            randomized_delay_seconds=machine.number("randomized_delay_seconds"),
            keep=KeepRules.of(machine),
            minimum_retention_seconds=machine.number("minimum_retention_seconds"),
            check_parts=machine.number("check_parts"),
            notify_command=machine.text("notify_command"),
            success_command=machine.text("success_command"),
        )


def runs_of(machine: Resource) -> tuple[ScheduleRun, ...]:
    """Its Run directives."""
    return tuple(one.value for one in machine.directives("run"))
