"""Asks systemd, of the system or of one user, to take up, to leave and to describe our units."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from strongroom.errors import OperatingSystemError
from strongroom.printable import printable

if TYPE_CHECKING:
    from collections.abc import Mapping

_SYSTEM_FOLDER: Final = "/etc/systemd/system"
_LINES_OF_JOURNAL: Final = 60


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
        return _output(["systemctl", *self._scope(), *words])

    def require_running(self) -> None:
        """Raise OperatingSystemError where systemd does not run, as in most containers."""
        try:
            self.call("show", "--property=Version")
        except OperatingSystemError as error:
            raise OperatingSystemError(
                f"systemd does not run here, or not for this user ({error}), so nothing was "
                "installed; start `strongroom schedule run` by other means, such as cron"
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
        _output(["systemd-analyze", *self._scope(), "verify", "--man=no", *paths])

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
            return _output(words)
        except OperatingSystemError:
            return ""

    def _scope(self) -> list[str]:
        return ["--user"] if self.user else []


def _output(words: list[str]) -> str:
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=90
        )
    except FileNotFoundError as error:
        raise OperatingSystemError(
            f"{words[0]} is not here, and a schedule needs systemd; start `strongroom schedule "
            "run` by other means, such as cron"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise OperatingSystemError(f"`{' '.join(words)}` did not end within 90 s") from error
    messages = done.stderr.decode("utf-8", "replace").strip()
    if done.returncode:
        raise OperatingSystemError(f"`{printable(' '.join(words))}`: {printable(messages)}")
    return done.stdout.decode("utf-8", "replace")
