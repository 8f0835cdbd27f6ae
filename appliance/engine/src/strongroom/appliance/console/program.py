"""`strongroom-console`: the menu of the appliance."""

from __future__ import annotations

import argparse
import curses
import locale
import os
import signal
import sys
from typing import TYPE_CHECKING, Final

from strongroom.appliance.machine import Machine, is_installer
from strongroom.appliance.running import run_program
from strongroom.errors import EXIT_DONE, UsageError

if TYPE_CHECKING:
    from strongroom.cli.terminal import Terminal

_ESCAPE_MILLISECONDS: Final = 50
# See systemd(1), SIGRTMIN+21.
_NO_STATUS: Final = 21


def main() -> int:
    """Run; the exit code."""
    parser = argparse.ArgumentParser(
        prog="strongroom-console",
        description="Show the menu of the appliance. As root, over ssh: sudo strongroom-console",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--login", action="store_true", help="for ever, with a password: on tty1 and serial lines"
    )
    parser.add_argument(
        "--install", metavar="IMAGE", help="the dialogue of the ISO, with another image"
    )
    return run_program("strongroom-console", parser, _run, sys.argv[1:])


def _run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    from strongroom.appliance.console.menu import show_for_ever, show_menu
    from strongroom.appliance.console.screen import Screen

    if os.geteuid() != 0:
        raise UsageError("only root can set a machine up: use sudo")
    if not (sys.stdin.isatty() and terminal.output.isatty()):
        raise UsageError("the menu needs a terminal; for scripts there is strongroom-installer")
    if arguments.login and Machine().is_running:
        # The start may go on for minutes; what systemd writes of it would cover the pages.
        os.kill(1, signal.SIGRTMIN + _NO_STATUS)
    locale.setlocale(locale.LC_ALL, "")
    os.environ.setdefault("ESCDELAY", str(_ESCAPE_MILLISECONDS))
    try:
        if arguments.install or (arguments.login and is_installer()):
            # It brings libraries that the page at rest does not hold.
            from strongroom.appliance.console.installation import show_installation
            from strongroom.appliance.installing import IMAGE

            image = arguments.install or IMAGE
            curses.wrapper(lambda window: show_installation(Screen(window), image))
        elif arguments.login:
            curses.wrapper(show_for_ever)
        else:
            curses.wrapper(lambda window: show_menu(Screen(window), ""))
    except curses.error as error:
        raise UsageError(
            f"this terminal ({os.environ.get('TERM', 'TERM is not set')}) cannot show the menu: "
            f"{error}; set TERM, such as vt100"
        ) from error
    return EXIT_DONE


if __name__ == "__main__":
    sys.exit(main())
