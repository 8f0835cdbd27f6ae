"""What the console shows of this machine: address, fingerprints, daemons, disk."""

from __future__ import annotations

import json
import os
import shutil
import socket
import textwrap
from typing import Final

from strongroom.base import clock
from strongroom.base.clock import local_text
from strongroom.base.errors import OperatingSystemError, StrongroomError
from strongroom.base.printable import printable
from strongroom_appliance.disks.unlocking import is_waiting
from strongroom_appliance.machine import MOUNT_POINT, Machine, is_live, run_for_code
from strongroom_appliance.next_steps import director_address
from strongroom_appliance.state import State
from strongroom_appliance.steps.identity import host_key_fingerprints
from strongroom_appliance.updates.record import read_record

_CERTIFICATE_BYTES: Final = 16 << 10
_UNITS: Final = ("strongroom-director", "strongroom-storage", "ssh")


def status_lines() -> list[str]:
    """A page."""
    state = State().known
    clock.follow_time_zone()
    lines = [
        f"Name            {printable(socket.gethostname())}      {local_text(clock.now_ns())}",
        f"Addresses       {', '.join(addresses()) or 'none yet'}",
    ]
    where = director_address()
    if where:
        lines.append(f"Director        {where}    (also its web page)")
    fingerprint = authority_fingerprint()
    if fingerprint:
        lines += ["Authority       (compare it where machines join)", f"  {fingerprint}"]
    keys = host_key_fingerprints(Machine())
    if keys:
        lines.append("ssh host keys")
        lines += [f"  {printable(one)}" for one in keys]
    lines += ["", *_services(), _disk_line()]
    if not state.is_ready:
        lines += ["", "This machine is NOT SET UP. Press Enter for the menu."]
    if is_live():
        lines += ["", "Started live: the setup is lost when the machine is switched off."]
    if state.trouble:
        lines += [
            "",
            *textwrap.wrap(f"The answer file was not applied: {state.trouble}", 76),
            "Fix it, and choose `Look for the answer file again` in the menu, or restart.",
        ]
    return lines + _update_lines()


def _update_lines() -> list[str]:
    """What somebody must know of the last update."""
    try:
        record = read_record()
    except StrongroomError as error:
        return ["", printable(str(error))]
    if record is None or record.result == "good":
        return []
    if record.result == "failed":
        why = printable("; ".join(record.reasons), 120)
        return ["", f"The update to {printable(record.image)} failed: {why}"]
    return ["", f"The update to {printable(record.image)} waits for a restart."]


def addresses() -> list[str]:
    """Addresses that others can reach."""
    try:
        code, output = run_for_code(["ip", "-json", "address", "show", "up"])
    except OperatingSystemError:
        return []
    found = []
    for link in json.loads(output) if code == 0 and output.strip() else []:
        if "LOOPBACK" in link.get("flags", ()):
            continue
        found += [
            f"{one['local']} ({link['ifname']})"
            for one in link.get("addr_info", ())
            if one.get("scope") == "global"
        ]
    return found


def authority_fingerprint(folder: str = "/var/lib/strongroom/ca") -> str:
    """The authority's fingerprint, as `strongroom ca list` says it; empty before setup.

    From the file itself: this page stays, and the library of certificates takes 10 MB.
    """
    import hashlib
    import ssl

    try:
        with open(os.path.join(folder, "root.pem"), encoding="ascii") as file:
            certificate = ssl.PEM_cert_to_DER_cert(file.read(_CERTIFICATE_BYTES))
    except (OSError, ValueError):
        return ""
    return hashlib.sha256(certificate).hexdigest()


def _services() -> list[str]:
    """One line each, in one question: the page is made anew every few seconds."""
    try:
        output = run_for_code(["systemctl", "is-active", *(f"{unit}.service" for unit in _UNITS)])[
            1
        ]
    except OperatingSystemError:
        output = ""
    states = output.split()
    if len(states) != len(_UNITS):
        states = ["unknown"] * len(_UNITS)
    return [f"{unit:<20}{printable(state)}" for unit, state in zip(_UNITS, states, strict=True)]


def _disk_line() -> str:
    label = f"{'data disk':<20}"
    if is_waiting():
        return f"{label}LOCKED: choose `Unlock the data disk` in the menu"
    if not os.path.ismount(MOUNT_POINT):
        return f"{label}none"
    usage = shutil.disk_usage(MOUNT_POINT)
    return f"{label}{usage.free / 1e9:.1f} GB free of {usage.total / 1e9:.1f} GB"
