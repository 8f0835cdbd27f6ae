"""What the commands of the three daemons have in common: options, the check, how they start."""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from strongroom.base.errors import EXIT_DONE, StrongroomError
from strongroom.base.printable import printable
from strongroom.cli.settings import USUAL_CONFIGURATION
from strongroom.cli.terminal import Terminal

if TYPE_CHECKING:
    from strongroom.service.preflight import Preflight

_log = logging.getLogger(__name__)


def add_configuration_option(parser: argparse.ArgumentParser, *actions: argparse.ArgumentParser,
                             text: str = "the tree or file") -> None:  # fmt: skip
    """Add `--config` to a command, and to its actions, of which each keeps what is before it."""
    for one in (parser, *actions):
        default = USUAL_CONFIGURATION if one is parser else argparse.SUPPRESS
        shown = f"{text} ({USUAL_CONFIGURATION})"
        one.add_argument("--config", metavar="FOLDER", default=default, help=shown)


def add_daemon_options(
    parser: argparse.ArgumentParser, checks: argparse._MutuallyExclusiveGroup | None = None
) -> None:
    """Add `--foreground`, and `--check` and `--check-first` to `checks` if that is given."""
    # It never leaves the foreground; the option exists for service managers that pass it.
    parser.add_argument(
        "--foreground", action="store_true", help="stay in the foreground (it always does)"
    )
    group = parser if checks is None else checks
    group.add_argument("--check", action="store_true", help="report every fault, and exit")
    group.add_argument(
        "--check-first", action="store_true", help="log every fault, and start all the same"
    )


def begin_daemon(
    arguments: argparse.Namespace,
    check: Callable[[str], tuple[object, Preflight]],
    *,
    repeats: str = "",
) -> str:
    """Set up the process of a daemon; gives the absolute path of its configuration.

    repeats: a library whose log lines only repeat ours; its warnings are shown.
    """
    from strongroom.base.interpreter import leave_present_folder
    from strongroom.service.service_manager import begin_log

    path: str = os.path.abspath(arguments.config)
    leave_present_folder()
    begin_log(verbose=arguments.verbose)
    if arguments.check_first:
        log_faults(check, path)
    if repeats:
        logging.getLogger(repeats).setLevel(logging.WARNING)
    return path


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
