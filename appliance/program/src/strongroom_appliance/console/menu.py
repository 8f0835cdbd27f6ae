"""The menu, and the page that everybody sees before it.

That page is on each console for as long as the machine runs, so what only the menu needs is
imported when something is chosen: two thirds of the memory.
"""

from __future__ import annotations

import curses
import os
import signal
import subprocess
from collections.abc import Callable
from importlib import import_module
from typing import Final

from strongroom.base.errors import UsageError
from strongroom.base.printable import printable
from strongroom_appliance.console.login import is_open, log_in
from strongroom_appliance.console.screen import LEAST_COLUMNS, LEAST_ROWS, Idle, Screen
from strongroom_appliance.console.status import status_lines
from strongroom_appliance.disks.unlocking import is_encrypted, is_waiting
from strongroom_appliance.running import fault_of
from strongroom_appliance.state import State

_IDLE_SECONDS: Final = 600
_REFRESH_SECONDS: Final = 5
_ENTER: Final = (10, 13, curses.KEY_ENTER)
_TITLE: Final = "Strongroom"

# Key, text, and the function, by its module in this folder.
_ACTIONS: Final = (
    ("1", "Network", "actions.network"),
    ("2", "Host name and time", "actions.naming"),
    ("3", "Data disk", "disk_pages.data_disk"),
    ("4", "Administrator and ssh keys", "actions.administrator"),
    ("5", "Set up backups (repository key: generate or import)", "actions.backups"),
    ("6", "Repository key: paper copy", "handing_out.paper_copy"),
    ("7", "Enrolment token for agents", "handing_out.enrolment_token"),
    ("8", "Status", "actions.status"),
    ("9", "Support bundle", "actions.support_bundle"),
    ("w", "Web page: a token to log in with", "handing_out.web_token"),
    ("l", "Keyboard layout", "actions.keyboard"),
    ("a", "Look for the answer file again", "actions.answer_file"),
    ("k", "Recovery key of the data disk", "disk_pages.recovery_key"),
    ("u", "Unlock the data disk", "disk_pages.unlock"),
    ("r", "Restart", "actions.restart"),
    ("p", "Power off", "actions.power_off"),
)


def show_always(window: curses.window) -> None:
    """On a console of the machine: the status, and after Enter and a password the menu."""
    while True:
        screen = Screen(window)
        _check_size(window)
        try:
            footer = "Enter opens the menu" if is_open() else "Enter: log in, and open the menu"
            screen.refresh_page(_TITLE, status_lines(), footer)
            if screen.key(_REFRESH_SECONDS) not in _ENTER:
                continue
            screen.idle_seconds = _IDLE_SECONDS
            name = "" if is_open() else log_in(screen)
            if name is not None:
                show_menu(screen, name)
        except Idle:
            pass
        except Exception as error:  # noqa: BLE001 - a console that ends shows no one why
            screen.idle_seconds = 0
            screen.text(_TITLE, folded(str(fault_of("the console", error))))
        curses.flushinp()


def show_menu(screen: Screen, name: str) -> None:
    """Until Escape. name: who has logged in, for the shell."""
    while True:
        shown = {"u": is_waiting(), "k": is_encrypted(), "a": not State().known.is_ready}
        items = [(key, text) for key, text, _ in _ACTIONS if shown.get(key, True)]
        if name:
            items.insert(-2, ("s", f"Shell, as {name}"))
        chosen = screen.menu(_TITLE, items)
        if chosen is None:
            return
        if chosen == "s":
            _shell(name)
            continue
        title, place = next((text, place) for key, text, place in _ACTIONS if key == chosen)
        try:
            _action(place)(screen)
        except Idle:
            raise
        except Exception as error:  # noqa: BLE001 - the page says it, and the menu continues
            screen.text(title, folded(str(fault_of(f"`{title}`", error))))


def _action(place: str) -> Callable[[Screen], None]:
    module, _, name = place.partition(".")
    found: Callable[[Screen], None] = getattr(import_module(f"{__package__}.{module}"), name)
    return found


def _shell(name: str) -> None:
    """A login shell of the administrator who has given the password."""
    curses.def_prog_mode()
    curses.endwin()
    subprocess.run(["runuser", "--login", name], check=False)
    # The shell had the terminal; who is in the background may not take it without a signal.
    before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    try:
        os.tcsetpgrp(0, os.getpgrp())
    finally:
        signal.signal(signal.SIGTTOU, before)
    curses.reset_prog_mode()


def _check_size(window: curses.window) -> None:
    rows, columns = window.getmaxyx()
    if rows < LEAST_ROWS or columns < LEAST_COLUMNS:
        raise UsageError(
            f"this terminal has {columns} columns and {rows} rows; the menu needs "
            f"{LEAST_COLUMNS} and {LEAST_ROWS} (`stty cols 80 rows 24`)"
        )


def folded(text: str) -> list[str]:
    """A message as lines of a page."""
    import textwrap

    return [
        piece
        for line in text.split("\n")
        for piece in textwrap.wrap(printable(line), 76, break_on_hyphens=False)
    ]
