"""The dialogue of the ISO: choose a disk, type its name, wait."""

from __future__ import annotations

import os

from strongroom.base.errors import StrongroomError
from strongroom.base.printable import printable
from strongroom_appliance.console.actions import keyboard
from strongroom_appliance.console.disk_pages import choose_disk, described
from strongroom_appliance.console.fields import Field
from strongroom_appliance.console.menu import folded
from strongroom_appliance.console.screen import Screen
from strongroom_appliance.finding import find_answers
from strongroom_appliance.installing import RESULT_FILE, install
from strongroom_appliance.machine import Machine, run

_TITLE = "Install Strongroom"


def show_installation(screen: Screen, image: str) -> None:
    """Until it is installed, or the machine is switched off."""
    result = Machine().read(RESULT_FILE)
    if result:
        screen.text(_TITLE, [printable(line, 240) for line in result.splitlines()])
    while True:
        items = [("1", "Install to a disk"), ("l", "Keyboard layout"), ("r", "Restart"),
                 ("p", "Power off")]  # fmt: skip
        chosen = screen.menu(_TITLE, items)
        if chosen == "r":
            run(["systemctl", "reboot"])
        elif chosen == "p":
            run(["systemctl", "poweroff"])
        elif chosen == "1":
            try:
                _install(screen, image)
            except StrongroomError as error:
                screen.text(_TITLE, [*folded(str(error)), "", "Nothing else was done."])
        elif chosen == "l":
            keyboard(screen)


def _install(screen: Screen, image: str) -> None:
    disk = choose_disk(screen, f"{_TITLE}: to which disk?")
    if disk is None:
        return
    name = os.path.basename(disk.name)
    lines = ["The system goes to", "", *described(disk).split("\n"), ""]
    lines += ["ALL THAT IS ON THIS DISK IS LOST.", ""]
    word = screen.ask(_TITLE, lines, Field("word", f"Type {name} to continue"))
    if word is None:
        return
    if word != name:
        screen.text(_TITLE, ["That is not the disk's name. Nothing was changed."])
        return
    found = find_answers(installs=True)
    data = found.data if found is not None else None
    install(image, disk.name, word, data, screen.log(_TITLE))
    screen.text(_TITLE, ["Done. Remove the ISO and restart."])
