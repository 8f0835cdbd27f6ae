"""What the menu does: each action fills in a part of the answers and applies it."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from typing import Any

from strongroom.base.errors import UsageError
from strongroom.base.printable import printable
from strongroom_appliance import first_boot
from strongroom_appliance.answers.model import AnswerFile
from strongroom_appliance.bundle import write_bundle
from strongroom_appliance.console.fields import Field
from strongroom_appliance.console.forms import (
    fill_in_and_apply,
    kept_answers,
    network_fields,
    network_part,
    words,
)
from strongroom_appliance.console.login import administrators, new_hash
from strongroom_appliance.console.screen import Screen
from strongroom_appliance.console.status import status_lines
from strongroom_appliance.finding import labelled_file
from strongroom_appliance.machine import run
from strongroom_appliance.next_steps import next_steps
from strongroom_appliance.state import State
from strongroom_appliance.steps.repository import setup_answers

_STICK_KEYS = "authorized_keys"
_LEAST_PASSWORD = 10


def network(screen: Screen) -> None:
    """Set addresses, VLAN and bond."""
    cards = sorted(
        name
        for name in os.listdir("/sys/class/net")
        if os.path.exists(f"/sys/class/net/{name}/device") or name.startswith(("eth", "host"))
    )
    fill_in_and_apply(
        screen, "Network", lambda kept: network_fields(kept, cards),
        lambda filled: {"network": network_part(filled)},
    )  # fmt: skip


def naming(screen: Screen) -> None:
    """Set host name, time zone and time servers."""

    def fields(kept: AnswerFile) -> list[Field]:
        zone = kept.time.zone if kept.time else "Etc/UTC"
        return [
            Field("hostname", "Host name", kept.hostname or socket.getfqdn(),
                  hint="Whole, such as vault.example.org"),
            Field("zone", "Time zone", zone, hint="Such as Europe/Berlin"),
            Field("ntp", "Time servers", " ".join(kept.time.ntp) if kept.time else "",
                  hint="Empty: those of the distribution"),
        ]  # fmt: skip

    fill_in_and_apply(
        screen, "Host name and time", fields,
        lambda filled: {
            "hostname": filled["hostname"],
            "time": {"zone": filled["zone"], "ntp": words(filled["ntp"])},
        },
    )  # fmt: skip


def keyboard(screen: Screen) -> None:
    """Set the layout of the keyboard at the screen."""

    def fields(kept: AnswerFile) -> list[Field]:
        hint = (
            "Such as us, gb, de, fr, ch-fr or de-nodeadkeys. Over a serial line or ssh the "
            "keyboard of your terminal counts"
        )
        return [Field("keyboard", "Layout", kept.keyboard or "us", hint=hint)]

    fill_in_and_apply(screen, "Keyboard layout", fields, dict)


def answer_file(screen: Screen) -> None:
    """Look for an answer file again, and apply it."""
    title = "Look for the answer file again"
    if first_boot.apply_found_answers(screen.log(title)):
        screen.text(title, ["The answers are applied.", "", *next_steps()])
    else:
        screen.text(title, ["No answer file. Put answers.yml on a disk labelled STRONGROOM."])


def administrator(screen: Screen) -> None:
    """Make the administrator; keys are typed, or come from a stick."""

    def fields(kept: AnswerFile) -> list[Field]:
        admin = kept.admin
        key = admin.ssh_keys[0] if admin and admin.ssh_keys else ""
        hint = f"Or from a stick labelled STRONGROOM, file {_STICK_KEYS}: write stick"
        return [
            Field("name", "Name", admin.name if admin else "admin"),
            Field("password", "Password", is_secret=True,
                  hint="For this menu and sudo; empty: as it is"),
            Field("again", "Password again", is_secret=True),
            Field("key", "ssh key", key, hint=hint),
        ]  # fmt: skip

    def part(filled: Mapping[str, str]) -> dict[str, Any]:
        admin: dict[str, Any] = {"name": filled["name"], "ssh_keys": []}
        if filled["key"] == "stick":
            admin["ssh_keys"] = _keys_of_stick()
        elif filled["key"]:
            kept = kept_answers().admin
            others = kept.ssh_keys[1:] if kept is not None else []
            admin["ssh_keys"] = [filled["key"], *others]
        if filled["password"] != filled["again"]:
            raise UsageError("the two passwords differ; type them again")
        if filled["password"]:
            if len(filled["password"]) < _LEAST_PASSWORD:
                raise UsageError(f"a password has {_LEAST_PASSWORD} characters or more")
            admin["password_hash"] = new_hash(filled["password"])
        return {"admin": admin}

    fill_in_and_apply(screen, "Administrator", fields, part)


def _keys_of_stick() -> list[str]:
    data = labelled_file("STRONGROOM", _STICK_KEYS)
    if data is None:
        raise UsageError(f"there is no disk labelled STRONGROOM with a file {_STICK_KEYS}")
    lines = [line.strip() for line in data.decode("utf-8", "replace").splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def backups(screen: Screen) -> None:
    """Set up director, storage daemon and repository."""
    if not administrators():
        raise UsageError(
            "make an administrator with a password first: once backups are set up, no one else can "
            "open this menu"
        )

    def fields(kept: AnswerFile) -> list[Field]:
        given = kept.appliance or {}
        groups = given.get("groups", ["servers"])
        return [
            Field("address", "Name for agents",
                  str(given.get("address") or kept.hostname or socket.getfqdn()),
                  hint="The name or address at which machines reach this one"),
            Field("groups", "Groups of machines", " ".join(groups)),
            Field("backup_time", "Backups begin at", str(given.get("backup_time", "21:00"))),
            Field("key", "Repository key", "generate", ("generate", "import"),
                  hint="import: a repository is on the data disk, its passphrase on paper"),
            Field("passphrase", "Passphrase to import", is_secret=True,
                  hint="Without the blanks between groups on paper"),
        ]  # fmt: skip

    def part(filled: Mapping[str, str]) -> dict[str, Any]:
        before = kept_answers().appliance or {}
        given = {**before, "address": filled["address"], "backup_time": filled["backup_time"]}
        given["groups"] = words(filled["groups"])
        key: dict[str, Any] = {"mode": filled["key"]}
        if filled["key"] == "import":
            key["passphrase"] = filled["passphrase"]
        kept_disk = kept_answers().data_disk
        if kept_disk is not None:
            given["repository"] = setup_answers(kept_answers())["repository"]
        return {"appliance": given, "repository_key": key}

    fill_in_and_apply(screen, "Set up backups", fields, part, is_last=True)


def status(screen: Screen) -> None:
    """What was done, and what is."""
    lines = status_lines()
    lines += ["", "Steps"]
    for name, report in State().known.steps.items():
        lines.append(f"  {name:<16}{report.result:<8}{report.at}")
        lines += [f"      {printable(one)}" for one in report.did]
        if report.error:
            lines.append(f"      {report.error}")
    screen.text("Status", lines)


def support_bundle(screen: Screen) -> None:
    """Write the support bundle."""
    place = f"/var/tmp/strongroom-support-{socket.gethostname()}.tar.gz"  # noqa: S108 - new, 0600
    if os.path.lexists(place):
        os.unlink(place)
    say = screen.log("Support bundle")
    say("collecting; no passphrase, key or token goes in")
    write_bundle(place)
    screen.text("Support bundle", [f"It is in {place}", "Get it by scp, as root or with sudo."])


def restart(screen: Screen) -> None:
    """Restart the machine."""
    if screen.confirm("Restart", ["Running backups are interrupted and continue afterwards."]):
        run(["systemctl", "reboot"])


def power_off(screen: Screen) -> None:
    """Switch the machine off."""
    if screen.confirm("Power off", ["No backups are made until it is switched on again."]):
        run(["systemctl", "poweroff"])
