"""systemd of this machine: what its programs print; services enabled, started and stopped."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Sequence
from typing import Final

from strongroom.base.errors import OperatingSystemError
from strongroom.base.printable import printable

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


def output_of(words: Sequence[str]) -> str:
    """What a program of systemd prints. Raises OperatingSystemError with what it objects to."""
    done = _ended(words)
    if done.returncode:
        messages = done.stderr.decode("utf-8", "replace").strip()
        raise OperatingSystemError(f"`{printable(' '.join(words))}`: {printable(messages)}")
    return done.stdout.decode("utf-8", "replace")


def _is(question: str, unit: str) -> bool:
    # No answer is not a no: a service that runs would not be stopped.
    return _ended(["systemctl", question, "--quiet", unit]).returncode == 0


def _ended(words: Sequence[str]) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=_PATIENCE_SECONDS,
        )
    except FileNotFoundError as error:
        raise OperatingSystemError(f"{words[0]} is not installed: this needs systemd") from error
    except OSError as error:
        raise OperatingSystemError(f"{words[0]} does not start: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise OperatingSystemError(
            f"`{' '.join(words)}` did not end within {_PATIENCE_SECONDS} s"
        ) from error


def _systemctl(*words: str) -> None:
    try:
        output_of(["systemctl", *words])
    except OperatingSystemError as error:
        raise OperatingSystemError(f"{error}; see `journalctl -u {words[-1]}`") from error
