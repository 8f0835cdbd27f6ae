"""Services of this machine: enabled and started where systemd runs."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from typing import Final

from strongroom.base.errors import OperatingSystemError

_SYSTEMD: Final = "/run/systemd/system"
_PATIENCE_SECONDS: Final = 180


def has_systemd() -> bool:
    """Whether systemd runs here, and we may change its services."""
    return os.path.isdir(_SYSTEMD) and os.geteuid() == 0


def start_services(units: Iterable[str], reload: bool) -> list[str]:
    """Enable and start services; those that run are reloaded if `reload`. Returns what was done.

    Raises OperatingSystemError.
    """
    done = []
    for unit in units:
        if not _is("is-enabled", unit):
            _systemctl("enable", "--quiet", unit)
            done.append(f"enabled {unit}")
        if not _is("is-active", unit):
            _systemctl("restart", unit)
            done.append(f"started {unit}")
        elif reload and unit.endswith(".service"):
            _systemctl("reload", unit)
            done.append(f"reloaded {unit}")
    return done


def stop_services(units: Iterable[str]) -> list[str]:
    """Stop and disable services. Returns what was done. Raises OperatingSystemError."""
    done = []
    for unit in units:
        if _is("is-active", unit) or _is("is-enabled", unit):
            _systemctl("disable", "--quiet", "--now", unit)
            done.append(f"stopped {unit}")
    return done


def _is(question: str, unit: str) -> bool:
    return _run(question, "--quiet", unit).returncode == 0


def _systemctl(*words: str) -> None:
    answer = _run(*words)
    if answer.returncode:
        raise OperatingSystemError(
            f"`systemctl {' '.join(words)}` failed: {answer.stderr.strip()}; see "
            f"`journalctl -u {words[-1]}`"
        )


def _run(*words: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            ["systemctl", *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PATIENCE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise OperatingSystemError(f"systemctl does not answer: {error}") from error
