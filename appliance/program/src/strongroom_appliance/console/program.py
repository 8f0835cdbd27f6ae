"""The menu of the appliance on a terminal: `strongroom-appliance console`."""

from __future__ import annotations

import curses
import locale
import os
import signal
import sys
from typing import TYPE_CHECKING, Final

from strongroom.base.errors import UsageError
from strongroom.cli.terminal import Terminal
from strongroom_appliance.machine import Machine, is_installer
from strongroom_appliance.running import need_root

if TYPE_CHECKING:
    import argparse

_ESCAPE_MILLISECONDS: Final = 50
# See systemd(1), SIGRTMIN+21.
_NO_STATUS: Final = 21


def show_console(arguments: argparse.Namespace, terminal: Terminal) -> None:
    """Show what the options say, until it is left. Raises UsageError."""
    from strongroom_appliance.console.menu import show_always, show_menu
    from strongroom_appliance.console.screen import Screen

    need_root("set a machine up")
    if not (sys.stdin.isatty() and terminal.output.isatty()):
        raise UsageError("the menu needs a terminal; for scripts there are the other commands")
    if arguments.login and Machine().is_running:
        # The start may continue for minutes; what systemd writes of it would cover the pages.
        os.kill(1, signal.SIGRTMIN + _NO_STATUS)
    locale.setlocale(locale.LC_ALL, "")
    os.environ.setdefault("ESCDELAY", str(_ESCAPE_MILLISECONDS))
    try:
        if arguments.install or (arguments.login and is_installer()):
            # It brings libraries that the page at rest does not hold.
            from strongroom_appliance.console.installation import show_installation
            from strongroom_appliance.installing import IMAGE

            image = arguments.install or IMAGE
            curses.wrapper(lambda window: show_installation(Screen(window), image))
        elif arguments.login:
            curses.wrapper(show_always)
        else:
            curses.wrapper(lambda window: show_menu(Screen(window), ""))
    except curses.error as error:
        raise UsageError(
            f"this terminal ({os.environ.get('TERM', 'TERM is not set')}) cannot show the menu: "
            f"{error}; set TERM, such as vt100"
        ) from error
