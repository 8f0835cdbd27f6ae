"""Choosing a disk, making the data disk of it, unlocking it, and its recovery key."""

from __future__ import annotations

import os
import string
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, Final

from strongroom.base.errors import UsageError
from strongroom.base.printable import printable
from strongroom_appliance.console.fields import Field
from strongroom_appliance.console.forms import fill_in_and_apply
from strongroom_appliance.console.screen import Screen
from strongroom_appliance.disks.looking import Disk, all_disks
from strongroom_appliance.disks.tpm import new_recovery_key
from strongroom_appliance.disks.unlocking import grow, unlock_and_start
from strongroom_appliance.machine import MOUNT_POINT
from strongroom_appliance.paper import recovery_lines
from strongroom_appliance.state import State

_COLUMNS: Final = 72
_KEYS: Final = "123456789" + string.ascii_lowercase


def data_disk(screen: Screen) -> None:
    """Choose, erase if that is wanted, and encrypt the disk for backups."""
    state = State()
    plan = state.known.disk
    if plan is not None and plan.is_made:
        lines = [f"The data disk is {printable(plan.device)}.", "It stays.", ""]
        if os.path.ismount(MOUNT_POINT):
            grow(state, lines.append, lines.append)
        screen.text("Data disk", lines)
        return
    disk = choose_disk(screen, "Data disk")
    if disk is None:
        return
    name = disk.name
    fields = [
        Field("encryption", "Encryption", "none", ("none", "passphrase", "tpm2"),
              hint="passphrase: it is unlocked here after every start. tpm2: by the TPM"),
        Field("passphrase", "Passphrase", is_secret=True, hint="12 characters or more"),
        Field("again", "Passphrase again", is_secret=True),
    ]  # fmt: skip
    if disk.holds:
        hint = f"All on it is lost. Type {os.path.basename(name)} to erase the disk"
        fields.append(Field("erase", "Erase", hint=hint))

    def part(filled: Mapping[str, str]) -> dict[str, Any]:
        answers: dict[str, Any] = {"device": name, "encryption": filled["encryption"]}
        if filled["encryption"] != "none":
            if filled["passphrase"] != filled["again"]:
                raise UsageError("the two passphrases differ; type them again")
            answers["passphrase"] = filled["passphrase"]
        if filled.get("erase"):
            answers["erase"] = filled["erase"]
        return {"data_disk": answers}

    head = described(disk).split("\n")
    fill_in_and_apply(screen, "Data disk", lambda _: fields, part, head)


def unlock(screen: Screen) -> None:
    """Unlock the data disk."""
    field = Field("passphrase", "Passphrase", is_secret=True)
    passphrase = screen.ask("Unlock the data disk", [], field)
    if passphrase:
        unlock_and_start(passphrase, screen.log("Unlock the data disk"))
        screen.text("Unlock the data disk", ["The data disk is unlocked."])


def recovery_key(screen: Screen) -> None:
    """Show a new recovery key of the encrypted data disk, to be copied to paper."""
    title = "Recovery key of the data disk"
    field = Field("passphrase", "Passphrase", is_secret=True)
    lines = ["A new key is made; keys made before stop working.", ""]
    passphrase = screen.ask(title, lines, field)
    if passphrase is not None:
        key = new_recovery_key(passphrase)
        screen.secret(title, recovery_lines(key), key)


def choose_disk(screen: Screen, title: str) -> Disk | None:
    """One of the disks that are not in use; None for none."""
    disks = [disk for disk in all_disks() if not disk.is_used]
    if not disks:
        screen.text(title, ["All disks are in use."])
        return None
    chosen = screen.menu(title, [(key, described(disk)) for key, disk in _with_keys(disks)])
    if chosen is None:
        return None
    return next(
        disk for at, (key, disk) in enumerate(_with_keys(disks)) if chosen == (key or str(at))
    )


def _with_keys(disks: Sequence[Disk]) -> list[tuple[str, Disk]]:
    """Each with the key that chooses it; beyond those that there are, the arrows do."""
    return [(_KEYS[at : at + 1], disk) for at, disk in enumerate(disks)]


def described(disk: Disk) -> str:
    """Whole, on as many lines as that takes: equal disks differ in their last letters."""
    return "\n".join(
        piece
        for line in disk.description()
        for piece in textwrap.wrap(line, _COLUMNS, break_on_hyphens=False)
    )
