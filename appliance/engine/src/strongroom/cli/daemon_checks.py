"""What the three daemons need to start: each fault, and the exit code of the first."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from strongroom.base.errors import EXIT_DONE, StrongroomError
from strongroom.base.printable import printable
from strongroom.cli.terminal import Terminal

if TYPE_CHECKING:
    from strongroom.service.preflight import Preflight

_log = logging.getLogger(__name__)


def add_check_options(
    parser: argparse.ArgumentParser | argparse._MutuallyExclusiveGroup,
) -> None:
    """Add `--check` and `--check-first`."""
    parser.add_argument("--check", action="store_true", help="report every fault, and exit")
    parser.add_argument(
        "--check-first", action="store_true", help="log every fault, and start all the same"
    )


def tell_faults(terminal: Terminal, look: Preflight) -> int:
    """Report the faults; gives the exit code."""
    for text in look.warnings:
        terminal.warn(printable(text))
    for fault in look.faults:
        terminal.report_error(fault.error_id, printable(fault.text), fault.exit_code)
    return look.faults[0].exit_code if look.faults else EXIT_DONE


def log_faults(check: Callable[[str], tuple[object, Preflight]], path: str) -> None:
    """Log every fault of the configuration at `path`; a start stops at the first that is fatal.

    In the process that starts afterwards, as loading programs is what takes the time.
    """
    try:
        _, look = check(path)
    except StrongroomError:
        # The configuration itself: the start says it.
        return
    except Exception:  # noqa: BLE001 - a fault of the check keeps no daemon from its work
        _log.exception("the check before the start failed; please report this")
        return
    for text in look.warnings:
        _log.warning("%s", text)
    for fault in look.faults:
        _log.error("[%s]: %s", fault.error_id, fault.text)
    if not look.faults:
        _log.info("the check before the start found no fault")
