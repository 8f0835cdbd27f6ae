"""What somebody has to do after what was done, and where the director is."""

from __future__ import annotations

import tomllib

from strongroom.base.printable import printable
from strongroom_appliance.machine import SETUP_ANSWERS, is_installer
from strongroom_appliance.state import State

# Steps of the answers, and where the menu does them.
_PAGES = (
    ("hostname", "2 Host name and time"),
    ("data_disk", "3 Data disk"),
    ("admin", "4 Administrator and ssh keys"),
    ("appliance", "5 Set up backups"),
)


def next_steps() -> list[str]:
    """What is to be done after what was done."""
    if is_installer():
        return []
    done = {name for name, report in State().known.steps.items() if report.result == "done"}
    if "appliance" not in done:
        missing = next(page for step, page in _PAGES if step not in done)
        return [f"Next: {missing}"]
    where = director_address()
    return [
        "Next:",
        (
            "- 6 Paper copy: write the passphrase down now. Without it no backup can be read once "
            "this machine is lost."
        ),
        f"- Open {where}/ in a browser; w makes a token to log in.",
        "- 7 Enrolment token: with it machines join, by",
        f"    strongroom agent join {where} --token-file FILE",
    ]


def director_address() -> str:
    """Where the director is, as setup wrote it down; empty before setup."""
    try:
        with open(SETUP_ANSWERS, "rb") as file:
            given = tomllib.load(file)
    except (OSError, tomllib.TOMLDecodeError):
        return ""
    host = str(given.get("address", ""))
    shown = f"[{host}]" if ":" in host else host
    return printable(f"https://{shown}:{given.get('director_port', 9101)}")
