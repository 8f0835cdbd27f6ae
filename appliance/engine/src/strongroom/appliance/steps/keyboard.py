"""The keyboard of the screen, as console-setup of Debian reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strongroom.appliance.machine import run

if TYPE_CHECKING:
    from strongroom.appliance.steps.context import Context

FILE: Final = "/etc/default/keyboard"


def set_keyboard(context: Context) -> None:
    """Set the layout, now and at each start."""
    said = context.answers.keyboard
    assert said is not None
    layout, _, variant = said.partition("-")
    text = (
        "# Written by Strongroom.\n"
        f'XKBMODEL="pc105"\nXKBLAYOUT="{layout}"\nXKBVARIANT="{variant}"\nXKBOPTIONS=""\n'
        'BACKSPACE="guess"\n'
    )
    if context.machine.write(FILE, text):
        context.did(f"set the keyboard layout {said}")
        if context.machine.is_running:
            # The next start takes what is saved.
            run(["setupcon", "--save-only"])
            run(["setupcon", "--keyboard-only", "--force"])
