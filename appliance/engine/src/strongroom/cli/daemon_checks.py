"""The result of `--check` of the three daemons: each fault, and the exit code of the first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strongroom.errors import EXIT_DONE
from strongroom.printable import printable

if TYPE_CHECKING:
    from strongroom.cli.terminal import Terminal
    from strongroom.daemons.preflight import Preflight


def tell_faults(terminal: Terminal, look: Preflight) -> int:
    """Report the faults; gives the exit code."""
    for text in look.warnings:
        terminal.warn(printable(text))
    for fault in look.faults:
        terminal.report_error(fault.error_id, printable(fault.text), fault.exit_code)
    return look.faults[0].exit_code if look.faults else EXIT_DONE
