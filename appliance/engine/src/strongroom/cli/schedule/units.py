"""The systemd units of a schedule, made from the templates beside this module, and systemd itself.

The service reads every file and writes nothing but the repository, its state and its cache. What
tells people of a failure is its own unit, so that it works when the service was killed, and
outside its sandbox, where a mail program can do its work.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from string import Template
from typing import Final

from strongroom.base.errors import OperatingSystemError
from strongroom.cli.schedule.machine import ScheduledMachine
from strongroom.cli.services import output_of

NAME: Final = "strongroom-backup"
SERVICE: Final = f"{NAME}.service"
TIMER: Final = f"{NAME}.timer"
NOTICE: Final = f"{NAME}-failed.service"
_SYSTEM_FOLDER: Final = "/etc/systemd/system"
_LINES_OF_JOURNAL: Final = 60


def unit_texts(machine: ScheduledMachine, *, user: bool) -> dict[str, str]:
    """Name -> text of each unit that `machine` needs, for the system or for one user."""
    settings = machine.settings
    has_notices = machine.notifies
    values = {
        "program": _program(),
        "configuration": _quoted(machine.file, command=True),
        "notice": NOTICE if has_notices else "",
        "repository": _quoted(settings.repository) if settings.repository.startswith("/") else "",
        "events": "\n".join(f"OnCalendar={event}" for event in settings.events),
        "delay": str(settings.randomized_delay_seconds),
    }
    names = (SERVICE, TIMER, NOTICE) if has_notices else (SERVICE, TIMER)
    return {name: _filled("user" if user else "system", name, values) for name in names}


def _filled(scope: str, name: str, values: Mapping[str, str]) -> str:
    """A template with its values; a line for a value that is "" is left out."""
    templates = resources.files("strongroom.cli.schedule") / "unit_templates"
    lines = (templates / scope / name).read_text("utf-8").splitlines(keepends=True)
    left_out = tuple(f"${{{key}}}" for key, text in values.items() if not text)
    kept = (line for line in lines if not any(one in line for one in left_out))
    return Template("".join(kept)).substitute(values)


def _program() -> str:
    """The command of the present installation, by absolute paths."""
    script = os.path.join(os.path.dirname(sys.executable), "strongroom")
    if os.access(script, os.X_OK):
        return _quoted(script, command=True)
    return f"{_quoted(sys.executable, command=True)} -P -m strongroom"


def _quoted(text: str, *, command: bool = False) -> str:
    """One word of a unit file; `command`: of a command line, where a dollar means more."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    escaped = escaped.replace("\n", "\\n").replace("\t", "\\t")
    if command:
        escaped = escaped.replace("$", "$$")
    return f'"{escaped}"' if escaped != text or " " in text or "'" in text else text


@dataclass(frozen=True, slots=True)
class ServiceManager:
    """systemd; `user`: that of the present user."""

    user: bool

    def unit_folder(self, environment: Mapping[str, str]) -> str:
        """Where the administrator's, or the user's, units lie."""
        if not self.user:
            return _SYSTEM_FOLDER
        base = environment.get("XDG_CONFIG_HOME", "")
        if not base.startswith("/"):
            base = os.path.join(environment.get("HOME") or "/", ".config")
        return os.path.join(base, "systemd", "user")

    def call(self, *words: str) -> str:
        """What `systemctl` prints. Raises OperatingSystemError."""
        return output_of(["systemctl", *self._scope(), *words])

    def require_running(self) -> None:
        """Raise OperatingSystemError where systemd does not run, as in most containers."""
        try:
            self.call("show", "--property=Version")
        except OperatingSystemError as error:
            raise OperatingSystemError(
                f"systemd does not run here, or not for this user ({error}), so nothing was "
                "installed; start `strongroom schedule run` in another way, such as cron"
            ) from error

    def is_running(self) -> bool:
        """Whether systemd answers."""
        try:
            self.require_running()
        except OperatingSystemError:
            return False
        return True

    def verify(self, paths: list[str]) -> None:
        """Let systemd read the units. Raises OperatingSystemError with what it objects to."""
        output_of(["systemd-analyze", *self._scope(), "verify", "--man=no", *paths])

    def properties(self, unit: str, *names: str) -> dict[str, str]:
        """Properties of a unit; empty where there is no systemd to ask."""
        try:
            text = self.call("show", unit, f"--property={','.join(names)}")
        except OperatingSystemError:
            return {}
        lines = (line.partition("=") for line in text.splitlines())
        return {name: value for name, _, value in lines}

    def last_lines(self, unit: str) -> str:
        """The end of the journal of a unit's last run; "" where it cannot be read."""
        invocation = self.properties(unit, "InvocationID").get("InvocationID", "")
        words = ["journalctl", *self._scope(), "--quiet", "--no-pager", "--output=cat"]
        words += [f"--lines={_LINES_OF_JOURNAL}", f"--unit={unit}"]
        if self.user:
            words[-1] = f"--user-unit={unit}"
        if invocation:
            words.append(f"_SYSTEMD_INVOCATION_ID={invocation}")
        try:
            return output_of(words)
        except OperatingSystemError:
            return ""

    def _scope(self) -> list[str]:
        return ["--user"] if self.user else []
