"""Host name, time zone, time servers, and the keyboard of the screen."""

from __future__ import annotations

import re
import socket
from typing import Final

from strongroom_appliance.machine import run
from strongroom_appliance.steps.context import Context

# As console-setup of Debian reads it.
KEYBOARD: Final = "/etc/default/keyboard"
TIME_SERVERS: Final = "/etc/systemd/timesyncd.conf.d/50-strongroom.conf"
_OWN_LINE: Final = re.compile(r"^127\.0\.1\.1\s.*\n?", re.MULTILINE)


def set_hostname(context: Context) -> None:
    """Set the name, and let it lead to this machine."""
    full = context.answers.hostname
    assert full is not None
    short = full.partition(".")[0]
    machine = context.machine
    hosts = machine.read("/etc/hosts")
    if hosts is None:
        hosts = "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n"
    names = full if full == short else f"{full} {short}"
    line = f"127.0.1.1 {names}\n"
    kept = _OWN_LINE.sub("", hosts)
    machine.write("/etc/hosts", kept + ("" if kept.endswith("\n") else "\n") + line)
    if machine.write("/etc/hostname", f"{short}\n"):
        context.did(f"named this machine {full}")
    if machine.is_running and socket.gethostname() != short:
        socket.sethostname(short)


def set_time(context: Context) -> None:
    """Set the time zone and the time servers."""
    time = context.answers.time
    assert time is not None
    machine = context.machine
    if machine.link("/etc/localtime", f"../usr/share/zoneinfo/{time.zone}"):
        context.did(f"set the time zone {time.zone}")
        if machine.is_running:
            # It starts jobs by the clock on the wall.
            run(["systemctl", "try-restart", "strongroom-director.service"])
    if time.ntp:
        text = f"# Written by Strongroom.\n[Time]\nNTP={' '.join(time.ntp)}\n"
        is_changed = machine.write(TIME_SERVERS, text)
    else:
        is_changed = machine.remove(TIME_SERVERS)
    if is_changed:
        context.did(f"set time servers: {', '.join(time.ntp) or 'those of the distribution'}")
        if machine.is_running:
            run(["systemctl", "try-restart", "systemd-timesyncd.service"])


def set_keyboard(context: Context) -> None:
    """Set the layout, now and at each start."""
    wanted = context.answers.keyboard
    assert wanted is not None
    layout, _, variant = wanted.partition("-")
    text = (
        "# Written by Strongroom.\n"
        f'XKBMODEL="pc105"\nXKBLAYOUT="{layout}"\nXKBVARIANT="{variant}"\nXKBOPTIONS=""\n'
        'BACKSPACE="guess"\n'
    )
    if context.machine.write(KEYBOARD, text):
        context.did(f"set the keyboard layout {wanted}")
        if context.machine.is_running:
            # The next start takes what is saved.
            run(["setupcon", "--save-only"])
            run(["setupcon", "--keyboard-only", "--force"])
