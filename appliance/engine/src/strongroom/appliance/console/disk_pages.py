"""Choosing a disk, and making the data disk of it."""

from __future__ import annotations

import os
import string
import textwrap
from typing import TYPE_CHECKING, Any, Final

from strongroom.appliance.console.fields import Field
from strongroom.appliance.console.filling_in import fill_in_and_apply
from strongroom.appliance.disks.growing import grow
from strongroom.appliance.disks.looking import Disk, all_disks
from strongroom.appliance.machine import MOUNT_POINT
from strongroom.appliance.state import State
from strongroom.errors import UsageError
from strongroom.printable import printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from strongroom.appliance.console.screen import Screen

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
        said: dict[str, Any] = {"device": name, "encryption": filled["encryption"]}
        if filled["encryption"] != "none":
            if filled["passphrase"] != filled["again"]:
                raise UsageError("the two passphrases differ; type them again")
            said["passphrase"] = filled["passphrase"]
        if filled.get("erase"):
            said["erase"] = filled["erase"]
        return {"data_disk": said}

    head = described(disk).split("\n")
    fill_in_and_apply(screen, "Data disk", lambda _: fields, part, head)


def choose_disk(screen: Screen, title: str) -> Disk | None:
    """One of the disks that are not in use; None for none."""
    disks = [disk for disk in all_disks() if not disk.is_used]
    if not disks:
        screen.text(title, ["There is no disk that is not in use."])
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
