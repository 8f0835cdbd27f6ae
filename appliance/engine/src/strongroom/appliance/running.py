"""How the programs of the appliance are run: options, errors and exit codes as in `strongroom`."""

from __future__ import annotations

import os
import traceback
from typing import TYPE_CHECKING, Any

from strongroom.cli.terminal import Terminal
from strongroom.errors import (
    EXIT_BUG,
    EXIT_OUTPUT_CLOSED,
    OperatingSystemError,
    OutputClosedError,
    StrongroomError,
)
from strongroom.printable import guard_standard_streams, printable

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

_EXIT_INTERRUPTED = 130


def at_once(terminal: Terminal) -> Callable[[str], None]:
    """Say each line when it is there: whoever waits at the console reads it."""

    def say(text: str) -> None:
        terminal.line(text)
        terminal.flush()

    return say


def run_program(
    name: str,
    parser: argparse.ArgumentParser,
    act: Callable[[Any, Terminal], int],
    words: Sequence[str],
) -> int:
    """Parse, act, and say what went wrong; the exit code."""
    guard_standard_streams()
    # Folders of the configuration are read by daemons; what is secret gets a mode of its own.
    os.umask(0o022)
    arguments = parser.parse_args(words)
    terminal = Terminal(as_json=getattr(arguments, "json", False))
    try:
        return act(arguments, terminal)
    except OutputClosedError:
        return EXIT_OUTPUT_CLOSED
    except StrongroomError as error:
        for line in str(error).split("\n"):
            terminal.message_line(f"{name}: error [{error.error_id}]: {printable(line)}")
        return error.exit_code
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        text = printable(f"{error.strerror or error}{where}")
        terminal.message_line(f"{name}: error [{OperatingSystemError.error_id}]: {text}")
        return OperatingSystemError.exit_code
    except KeyboardInterrupt:
        terminal.message_line(f"{name}: interrupted")
        return _EXIT_INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the last resort, which says all it knows
        for line in traceback.format_exc().splitlines():
            terminal.message_line(printable(line))
        terminal.message_line(f"{name}: error [bug]: {printable(str(error))}")
        return EXIT_BUG
