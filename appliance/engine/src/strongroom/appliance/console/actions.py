"""What the menu does: each action fills in a part of the answers and applies it."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Any

from strongroom.appliance import first_boot
from strongroom.appliance.answers.writing import yaml_text
from strongroom.appliance.applying import apply
from strongroom.appliance.bundle import write_bundle
from strongroom.appliance.console.forms import (
    checked,
    kept_answers,
    merged,
    network_fields,
    network_part,
    words,
)
from strongroom.appliance.console.login import administrators, new_hash
from strongroom.appliance.console.screen import Field
from strongroom.appliance.console.status import status_lines
from strongroom.appliance.disks.looking import all_disks
from strongroom.appliance.finding import labelled_file
from strongroom.appliance.machine import Machine, run, shown
from strongroom.appliance.paper import paper_lines, passphrase_text
from strongroom.appliance.state import State
from strongroom.appliance.steps.repository import make_token, setup_answers
from strongroom.errors import StrongroomError, UsageError
from strongroom.net.identities.private_files import SECRET_MODE
from strongroom.printable import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from strongroom.appliance.answers.model import AnswerFile
    from strongroom.appliance.console.screen import Screen

_STICK_KEYS = "authorized_keys"
_LEAST_PASSWORD = 10


def network(screen: Screen) -> None:
    """Set addresses, VLAN and bond."""
    cards = sorted(
        name
        for name in os.listdir("/sys/class/net")
        if os.path.exists(f"/sys/class/net/{name}/device") or name.startswith(("eth", "host"))
    )
    _fill_in_and_apply(
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

    _fill_in_and_apply(
        screen, "Host name and time", fields,
        lambda filled: {
            "hostname": filled["hostname"],
            "time": {"zone": filled["zone"], "ntp": words(filled["ntp"])},
        },
    )  # fmt: skip


def data_disk(screen: Screen) -> None:
    """Choose, erase if that is wanted, and encrypt the disk for backups."""
    plan = State().known.disk
    if plan is not None and plan.is_made:
        screen.text("Data disk", [f"The data disk is {printable(plan.device)}.", "It stays."])
        return
    disk = choose_disk(screen, "Data disk")
    if disk is None:
        return
    name, needs_word = disk
    fields = [
        Field("encryption", "Encryption", "none", ("none", "passphrase", "tpm2"),
              hint="passphrase: it is unlocked here after every start. tpm2: by the TPM"),
        Field("passphrase", "Passphrase", is_secret=True, hint="12 characters or more"),
        Field("again", "Passphrase again", is_secret=True),
    ]  # fmt: skip
    if needs_word:
        hint = f"All on it is lost. Type {os.path.basename(name)} to erase the disk"
        fields.append(Field("erase", "Erase", hint=hint))

    def part(filled: Mapping[str, str]) -> dict[str, Any]:
        said: dict[str, Any] = {"device": name, "encryption": filled["encryption"]}
        if filled["encryption"] != "none":
            if filled["passphrase"] != filled["again"]:
                raise UsageError("the two passphrases differ; type them again")
            said["passphrase"] = filled["passphrase"]
        if filled.get("erase"):
            said["erase"] = filled["erase"]
        return {"data_disk": said}

    _fill_in_and_apply(screen, f"Data disk {name}", lambda _: fields, part)


def choose_disk(screen: Screen, title: str) -> tuple[str, bool] | None:
    """A disk's name, and whether it holds something; None for none."""
    disks = [disk for disk in all_disks() if not disk.is_used]
    if not disks:
        screen.text(title, ["There is no disk that is not in use."])
        return None
    items = []
    for number, disk in enumerate(disks[:9], 1):
        holds = f"HOLDS {disk.holds}" if disk.holds else "empty"
        name = os.path.basename(disk.name)[:34]
        items.append((str(number), f"{name:<34} {disk.size / 1e9:8.1f} GB  {holds}"))
    chosen = screen.menu(title, items)
    if chosen is None:
        return None
    disk = disks[int(chosen) - 1]
    return disk.name, bool(disk.holds)


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

    _fill_in_and_apply(screen, "Administrator", fields, part)


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
            "make an administrator with a password first: once backups are set up, nobody else can "
            "open this menu"
        )

    def fields(kept: AnswerFile) -> list[Field]:
        said = kept.appliance or {}
        groups = said.get("groups", ["servers"])
        return [
            Field("address", "Name for agents",
                  str(said.get("address") or kept.hostname or socket.getfqdn()),
                  hint="The name or address at which machines reach this one"),
            Field("groups", "Groups of machines", " ".join(groups)),
            Field("backup_time", "Backups begin at", str(said.get("backup_time", "21:00"))),
            Field("key", "Repository key", "generate", ("generate", "import"),
                  hint="import: a repository is on the data disk, its passphrase on paper"),
            Field("passphrase", "Passphrase to import", is_secret=True,
                  hint="Without the blanks between groups on paper"),
        ]  # fmt: skip

    def part(filled: Mapping[str, str]) -> dict[str, Any]:
        before = kept_answers().appliance or {}
        said = {**before, "address": filled["address"], "backup_time": filled["backup_time"]}
        said["groups"] = words(filled["groups"])
        key: dict[str, Any] = {"mode": filled["key"]}
        if filled["key"] == "import":
            key["passphrase"] = filled["passphrase"]
        kept_disk = kept_answers().data_disk
        if kept_disk is not None:
            said["repository"] = setup_answers(kept_answers())["repository"]
        return {"appliance": said, "repository_key": key}

    if _fill_in_and_apply(screen, "Set up backups", fields, part):
        first_boot.become_ready(kept_answers())


def paper_copy(screen: Screen) -> None:
    """Show the passphrase, to be copied to paper."""
    screen.text("Repository key: paper copy", paper_lines(passphrase_text()))


def enrolment_token(screen: Screen) -> None:
    """Make a token with which machines join."""
    groups = tuple((kept_answers().appliance or {}).get("groups", ["servers"])) or ("servers",)
    fields = [
        Field("group", "Group", groups[0], groups),
        Field("names", "Names", "*", hint="Such as web*"),
        Field("uses", "For how many machines", "1"),
        Field("lifetime", "Good for", "1 day"),
    ]
    filled = screen.form("Enrolment token", fields)
    if filled is None:
        return
    answers, faults = checked({"agents": {"tokens": [filled]}, "appliance": {
        "address": "localhost", "groups": list(groups)}})  # fmt: skip
    if answers is None:
        screen.text("Enrolment token", faults)
        return
    assert answers.agents is not None
    token = answers.agents.tokens[0]
    said = make_token(token, "-")
    screen.text(
        "Enrolment token",
        ["Machines join with this token, on one line:", "", *_pieces(shown(said)), "",
         "On the machine: strongroom agent join URL-OF-THE-DIRECTOR --token-file FILE"],
    )  # fmt: skip


def _pieces(text: str) -> list[str]:
    return [text[at : at + 76] for at in range(0, len(text), 76)]


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
    if screen.confirm("Restart", ["Running backups are interrupted, and go on afterwards."]):
        run(["systemctl", "reboot"])


def power_off(screen: Screen) -> None:
    """Switch the machine off."""
    if screen.confirm("Power off", ["No backups are made until it is switched on again."]):
        run(["systemctl", "poweroff"])


def _fill_in_and_apply(
    screen: Screen,
    title: str,
    fields: Callable[[AnswerFile], Sequence[Field]],
    part: Callable[[Mapping[str, str]], dict[str, Any]],
) -> bool:
    """Show the form until it is right, then apply it; whether it was applied."""
    form = list(fields(kept_answers()))
    faults: list[str] = []
    while True:
        filled = screen.form(title, form, faults)
        if filled is None:
            return False
        form = [_refilled(one, filled) for one in form]
        try:
            answers, faults = checked(part(filled))
            if answers is None:
                continue
            changed = apply(answers, screen.log(title))
        except StrongroomError as error:
            faults = [str(error)]
            continue
        kept = merged(kept_answers(), answers)
        Machine().write(first_boot.KEPT, yaml_text(kept), SECRET_MODE)
        screen.text(title, ["Done:", "", *changed] if changed else ["Nothing had to be changed."])
        return True


def _refilled(field: Field, filled: Mapping[str, str]) -> Field:
    from dataclasses import replace

    return replace(field, value=filled[field.name])
