"""One run: backup, locks, forget and prune, then a part of the check; each its own process.

A step that fails ends the run with its exit code; files that could not be read (code 3) do not, nor
does a path of the FileSet that is not there (code 17), nor an object that a step could not read and
set aside (code 24), which people are notified of.
One run at a time: it holds a lock on a file of the state folder.

When it has failed, people are notified in its own process (`notices`).
"""

from __future__ import annotations

import fcntl
import os
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from strongroom.base.errors import (
    EXIT_DONE,
    EXIT_INCOMPLETE,
    LeaseError,
    NoticeError,
    PathMissingError,
    ScriptError,
    SetAsideError,
    UsageError,
)
from strongroom.base.interpreter import SAFE_FOLDER, module_command
from strongroom.base.printable import printable, printable_lines
from strongroom.cli.schedule.machine import ScheduledMachine
from strongroom.cli.schedule.notices import send_tests, tell_of_run
from strongroom.cli.schedule.units import SERVICE, ServiceManager
from strongroom.cli.terminal import Terminal
from strongroom.engine.stores.place import S3
from strongroom.net.identities.private_files import PUBLIC_MODE, write_file

if TYPE_CHECKING:
    from strongroom.config.settings.pool import KeepRules

# Snapshots of the schedule, which its rules are about; those made by hand have none.
JOB: Final = "scheduled"
_LOCK_FILE: Final = "run.lock"
_PART_FILE: Final = "checked-part"
_PERIODS: Final = ("last", "hourly", "daily", "weekly", "monthly", "yearly")
# What was made is worth keeping, so the other steps follow.
_CONTINUES: Final = (
    EXIT_DONE,
    EXIT_INCOMPLETE,
    PathMissingError.exit_code,
    SetAsideError.exit_code,
)
_SUCCESS_SECONDS: Final = 300
_NOTICE_SECONDS: Final = 240
_STOP_SECONDS: Final = 30


@dataclass(frozen=True, slots=True)
class ScheduledStep:
    """One command of a run."""

    name: str
    words: tuple[str, ...]


def run_once(machine: ScheduledMachine, folder: str, terminal: Terminal) -> int:
    """Do everything once; `folder` holds lock and state. Raises LeaseError when one runs."""
    with _alone(folder):
        part = _next_part(folder, machine.settings.check_parts)
        worst = EXIT_DONE
        for step in steps_of(machine, part):
            exit_code = _do(step, machine, terminal)
            if exit_code not in _CONTINUES:
                return exit_code
            worst = max(worst, exit_code)
        if machine.settings.check_parts:
            _write_part(folder, part)
        # What failed is reported by the unit that follows, also where this process was killed.
        if worst in (EXIT_DONE, EXIT_INCOMPLETE):
            for failure in tell_of_run(machine, folder, worst):
                terminal.warn(failure)
        if machine.settings.success_command and worst in (EXIT_DONE, EXIT_INCOMPLETE):
            _tell_success(machine, terminal)
    return worst


def steps_of(machine: ScheduledMachine, part: int) -> list[ScheduledStep]:
    """The commands of one run; `part`: which part of the repository is checked."""
    settings = machine.settings
    fileset = f"{machine.file}:{settings.fileset}"
    snapshots = ("--host", settings.name, "--job", JOB)
    steps = [
        ScheduledStep(
            "backup",
            (
                *("backup", "--fileset-config", fileset, "--fileset", settings.fileset),
                *("--allow-commands", "--missing-is-error", *snapshots),
            ),
        )
    ]
    if settings.repository.startswith(S3):
        # Before what removes something, so that a failure there leaves nothing unlocked.
        steps.append(ScheduledStep("lock", ("lock", "--if-locked")))
    if settings.keep is not None:
        minimum = ("--minimum-retention", f"{settings.minimum_retention_seconds}s")
        rules = _rules(settings.keep)
        steps.append(
            ScheduledStep(
                "forget", ("forget", *snapshots, "--group-by=", *rules, *minimum, "--prune")
            )
        )
    if settings.check_parts:
        steps.append(
            ScheduledStep("check", ("check", f"--read-data={part}/{settings.check_parts}"))
        )
    return steps


def _rules(keep: KeepRules) -> list[str]:
    counts = {period: getattr(keep, period) for period in _PERIODS}
    words = [f"--keep-{period}={count}" for period, count in counts.items() if count]
    if keep.within_seconds:
        words.append(f"--keep-within={keep.within_seconds}s")
    words += [f"--keep-tag={tag}" for tag in keep.tags]
    return words


def _do(step: ScheduledStep, machine: ScheduledMachine, terminal: Terminal) -> int:
    settings = machine.settings
    terminal.line(f"{step.name}:")
    terminal.flush()
    words = [*step.words, "--repo", settings.repository]
    words += ["--password-file", settings.passphrase_file]
    if terminal.as_json:
        words.append("--json")
    process = subprocess.Popen(module_command("strongroom", *words), cwd=SAFE_FOLDER)
    try:
        exit_code = process.wait()
    except BaseException:
        _stop(process)
        raise
    if exit_code < 0:
        terminal.warn(f"{step.name} was killed by signal {-exit_code}")
        return 128 - exit_code
    if exit_code not in _CONTINUES:
        terminal.warn(f"{step.name} failed with exit code {exit_code}; the rest is left out")
    return exit_code


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _tell_success(machine: ScheduledMachine, terminal: Terminal) -> None:
    """A watchdog that gets no sign sees that by itself, so the run is no failure for it."""
    command = machine.settings.success_command
    try:
        done = subprocess.run(
            shlex.split(command), stdin=subprocess.DEVNULL, check=False, timeout=_SUCCESS_SECONDS
        )
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        terminal.warn(f"Success Command: {printable(str(error))}")
        return
    if done.returncode:
        terminal.warn(f"Success Command ended with {done.returncode}")


@contextmanager
def _alone(folder: str) -> Iterator[None]:
    """Hold the lock. The kernel gives it back however the process ends."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
    lock = os.open(os.path.join(folder, _LOCK_FILE), flags, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise LeaseError(
                "a scheduled run is in progress; see `strongroom schedule show`"
            ) from error
        yield
    finally:
        os.close(lock)


def checked_part(folder: str) -> int:
    """The part that was checked last; 0 before the first."""
    try:
        with open(os.path.join(folder, _PART_FILE), encoding="ascii") as file:
            return int(file.read(16))
    except (OSError, ValueError):
        return 0


def _next_part(folder: str, parts: int) -> int:
    return checked_part(folder) % max(parts, 1) + 1


def _write_part(folder: str, part: int) -> None:
    write_file(os.fsencode(os.path.join(folder, _PART_FILE)), b"%d\n" % part, PUBLIC_MODE)


def tell_of_failure(
    machine: ScheduledMachine, manager: ServiceManager, folder: str, *, has_failed: bool
) -> None:
    """Notify people, with the end of the journal. Raises UsageError, ScriptError, NoticeError.

    `has_failed`: otherwise it says that this is a test. folder: of the state.
    """
    if not machine.notifies:
        raise UsageError(
            f"{printable(machine.file)} has no Notify Command and no Messages with a Notify block"
        )
    known = manager.properties(SERVICE, "Result", "ExecMainStatus")
    result, exit_code = known.get("Result", ""), known.get("ExecMainStatus", "")
    name = machine.settings.name
    journal = ""
    text = f"This tests how you are notified when the backup of {printable(name)} has failed.\n"
    if has_failed:
        text = f"The backup of {printable(name)} {_what(result, exit_code)}.\n"
    if has_failed and (lines := manager.last_lines(SERVICE)):
        journal = f"\nThe end of its journal (journalctl -u {SERVICE}):\n\n{printable_lines(lines)}"
    failures = []
    if has_failed:
        code = int(exit_code) if exit_code.isdecimal() else 1
        failures = tell_of_run(machine, folder, code, _what(result, exit_code), journal)
    else:
        sent = send_tests(machine, "")
        failures = [f"{target}: {error}" for target, error in sent if error]
    if machine.settings.notify_command:
        result = result if has_failed else "test"
        _run_notify_command(machine, text + journal, result, exit_code)
    if failures:
        raise NoticeError("; ".join(failures))


def _run_notify_command(machine: ScheduledMachine, text: str, result: str, exit_code: str) -> None:
    command = machine.settings.notify_command
    environment = {
        **os.environ,
        "STRONGROOM_MACHINE": machine.settings.name,
        "STRONGROOM_RESULT": result,
        "STRONGROOM_EXIT_CODE": exit_code,
    }
    try:
        done = subprocess.run(
            shlex.split(command),
            input=text.encode(),
            check=False,
            env=environment,
            timeout=_NOTICE_SECONDS,
        )
    except (OSError, ValueError) as error:
        raise ScriptError(f"Notify Command {printable(command)}: {error}") from error
    except subprocess.TimeoutExpired as error:
        raise ScriptError(
            f"Notify Command {printable(command)}: no end in {_NOTICE_SECONDS} s"
        ) from error
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
