"""Security updates: by apt on a Debian, as signed images on an appliance with two roots."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strongroom_appliance.machine import run
from strongroom_appliance.updates.schedule import CALENDAR_FILE, SCHEDULE_FILE, schedule_text
from strongroom_appliance.updates.slots import running

if TYPE_CHECKING:
    from strongroom_appliance.answers.model import Updates
    from strongroom_appliance.steps.context import Context

_APT: Final = "/etc/apt/apt.conf.d/53-strongroom-answers"
_NIGHT: Final = "03:30"


def set_updates(context: Context) -> None:
    """Set whether security updates come by themselves, and when the machine may restart."""
    updates = context.answers.updates
    assert updates is not None
    if running() is None:
        _by_apt(context, updates)
    else:
        _by_image(context, updates)


def _by_apt(context: Context, updates: Updates) -> None:
    on = "1" if updates.security else "0"
    lines = [
        "// Written by Strongroom.",
        f'APT::Periodic::Update-Package-Lists "{on}";',
        f'APT::Periodic::Unattended-Upgrade "{on}";',
        f'Unattended-Upgrade::Automatic-Reboot "{str(updates.reboot is not None).lower()}";',
    ]
    if updates.reboot is not None:
        lines.append(f'Unattended-Upgrade::Automatic-Reboot-Time "{updates.reboot}";')
    if context.machine.write(_APT, "\n".join([*lines, ""])):
        word = "install security updates every day" if updates.security else "install no updates"
        context.did(f"set updates: {word}; restart {updates.reboot or 'never automatically'}")


def _by_image(context: Context, updates: Updates) -> None:
    machine = context.machine
    if not updates.security or updates.source is None:
        if machine.remove(SCHEDULE_FILE):
            context.did("set updates: install none")
        if updates.security:
            context.say("  no `source` of updates is named, so none are installed")
        return
    text = schedule_text(updates.source, restarts=updates.reboot is not None)
    at = updates.reboot or _NIGHT
    calendar = f"# Written by Strongroom.\n[Timer]\nOnCalendar=\nOnCalendar=*-*-* {at}\n"
    is_changed = machine.write(CALENDAR_FILE, calendar)
    if machine.write(SCHEDULE_FILE, text) or is_changed:
        if machine.is_running:
            run(["systemctl", "daemon-reload"])
            run(["systemctl", "restart", "strongroom-update.timer"])
        word = "then restart" if updates.reboot else "never restart"
        context.did(f"set updates: from {updates.source} every day at {at}, {word}")
