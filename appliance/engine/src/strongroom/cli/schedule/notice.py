"""Tells people that a run has failed: gives what is known to the Notify Command."""

from __future__ import annotations

import os
import shlex
import subprocess
from typing import TYPE_CHECKING, Final

from strongroom.cli.schedule.units import SERVICE
from strongroom.errors import PathMissingError, ScriptError, UsageError
from strongroom.printable import printable, printable_lines

if TYPE_CHECKING:
    from strongroom.cli.schedule.machine import ScheduledMachine
    from strongroom.cli.schedule.service_manager import ServiceManager

_SECONDS: Final = 240


def tell_of_failure(
    machine: ScheduledMachine, manager: ServiceManager, *, has_failed: bool
) -> None:
    """Run the Notify Command with the end of the journal. Raises UsageError, ScriptError.

    `has_failed`: otherwise it says that this is a test.
    """
    command = machine.settings.notify_command
    if not command:
        raise UsageError(f"{printable(machine.file)} sets no Notify Command")
    known = manager.properties(SERVICE, "Result", "ExecMainStatus")
    result, exit_code = known.get("Result", ""), known.get("ExecMainStatus", "")
    name = machine.settings.name
    text = f"This tests how you are told when the backup of {printable(name)} has failed.\n"
    if has_failed:
        text = f"The backup of {printable(name)} {_what(result, exit_code)}.\n"
    if has_failed and (lines := manager.last_lines(SERVICE)):
        text += f"\nThe end of its journal (journalctl -u {SERVICE}):\n\n{printable_lines(lines)}"
    environment = {
        **os.environ,
        "STRONGROOM_MACHINE": name,
        "STRONGROOM_RESULT": result if has_failed else "test",
        "STRONGROOM_EXIT_CODE": exit_code,
    }
    try:
        done = subprocess.run(
            shlex.split(command),
            input=text.encode(),
            check=False,
            env=environment,
            timeout=_SECONDS,
        )
    except (OSError, ValueError) as error:
        raise ScriptError(f"Notify Command {printable(command)}: {error}") from error
    except subprocess.TimeoutExpired as error:
        raise ScriptError(f"Notify Command {printable(command)}: no end in {_SECONDS} s") from error
    if done.returncode:
        raise ScriptError(f"Notify Command {printable(command)} ended with {done.returncode}")


def _what(result: str, exit_code: str) -> str:
    if result == "exit-code" and exit_code == str(PathMissingError.exit_code):
        return (
            f"lacks a path that its FileSet names and that is not there (exit code {exit_code}); "
            "everything else was backed up"
        )
    if result == "exit-code":
        return f"has failed: exit code {exit_code}"
    if result in ("", "success"):
        return "has failed: it could not begin; is the disk of the repository there?"
    return f"has failed: systemd says `{printable(result)}`"
