"""How `strongroom-appliance` runs a command: options, errors and exit codes as in `strongroom`."""

from __future__ import annotations

import contextlib
import os
import syslog
import traceback
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from strongroom.base.errors import (
    EXIT_BUG,
    EXIT_OUTPUT_CLOSED,
    OperatingSystemError,
    OutputClosedError,
    StrongroomError,
    UsageError,
)
from strongroom.base.printable import guard_standard_streams, printable
from strongroom.cli.terminal import Terminal

if TYPE_CHECKING:
    import argparse

_EXIT_INTERRUPTED: Final = 130
_ACTIVE_CONSOLES: Final = "/sys/class/tty/console/active"


def at_once(terminal: Terminal) -> Callable[[str], None]:
    """Say each line when it is there: anyone who waits at a console reads it."""
    others = _other_consoles()

    def say(text: str) -> None:
        terminal.line(text)
        terminal.flush()
        for path in others:
            _write_to_console(path, text)

    return say


def _other_consoles() -> list[str]:
    """Of a service: screens and serial lines that its output does not reach.

    systemd writes it to /dev/console, which is the last that the kernel was given.
    """
    if "JOURNAL_STREAM" not in os.environ:
        return []
    try:
        with open(_ACTIVE_CONSOLES, encoding="ascii", errors="replace") as file:
            names = file.read().split()
    except OSError:
        return []
    return [f"/dev/{name}" for name in names[:-1]]


def _write_to_console(path: str, text: str) -> None:
    # A line where no one reads must not hold the setup up.
    flags = os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC
    with contextlib.suppress(OSError):
        descriptor = os.open(path, flags)
        try:
            os.write(descriptor, f"{printable(text)}\r\n".encode())
        finally:
            os.close(descriptor)


def fault_of(doing: str, error: Exception) -> StrongroomError:
    """An error as a sentence for people; the details of one of ours go to the journal."""
    if isinstance(error, StrongroomError):
        return error
    if isinstance(error, OSError) and error.strerror:
        place = f"{os.fsdecode(error.filename)}: " if error.filename else ""
        return OperatingSystemError(f"{doing} failed: {place}{error.strerror}")
    syslog.openlog("strongroom")
    for line in traceback.format_exc().splitlines():
        syslog.syslog(syslog.LOG_ERR, printable(line))
    fault = StrongroomError(
        f"{doing} failed by an error of this program ({type(error).__name__}); "
        "`journalctl -b -t strongroom` has the details, and so has the support bundle"
    )
    fault.error_id, fault.exit_code = "bug", EXIT_BUG
    return fault


def need_root(what: str) -> None:
    """Raise UsageError unless root runs this."""
    if os.geteuid() != 0:
        raise UsageError(f"only root can {what}: use sudo")


def run_program(parser: argparse.ArgumentParser, words: Sequence[str]) -> int:
    """Parse, do what `act` of the arguments does, and say what went wrong; the exit code."""
    guard_standard_streams()
    # Folders of the configuration are read by daemons; what is secret gets its own mode.
    os.umask(0o022)
    name = parser.prog
    arguments = parser.parse_args(words)
    terminal = Terminal(as_json=getattr(arguments, "json", False))
    try:
        exit_code: int = arguments.act(arguments, terminal)
        return exit_code
    except OutputClosedError:
        return EXIT_OUTPUT_CLOSED
    except StrongroomError as error:
        for line in str(error).split("\n"):
            _tell(terminal, f"{name}: error [{error.error_id}]: {printable(line)}")
        return error.exit_code
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        text = printable(f"{error.strerror or error}{where}")
        _tell(terminal, f"{name}: error [{OperatingSystemError.error_id}]: {text}")
        return OperatingSystemError.exit_code
    except KeyboardInterrupt:
        terminal.message_line(f"{name}: interrupted")
        return _EXIT_INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the last resort, which says all it knows
        for line in traceback.format_exc().splitlines():
            terminal.message_line(printable(line))
        _tell(terminal, f"{name}: error [bug]: {printable(str(error))}")
        return EXIT_BUG


def _tell(terminal: Terminal, text: str) -> None:
    terminal.message_line(text)
    for path in _other_consoles():
        _write_to_console(path, text)
