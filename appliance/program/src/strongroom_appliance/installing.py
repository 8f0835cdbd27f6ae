"""Installing the appliance from its ISO to a disk."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

from strongroom.base.errors import (
    ConfigurationError,
    ConflictError,
    OperatingSystemError,
    StrongroomError,
    UsageError,
)
from strongroom.base.printable import printable
from strongroom_appliance.answers.reading import examine
from strongroom_appliance.disks.choosing import chosen_disk
from strongroom_appliance.disks.copying import copy_image, expected_digest
from strongroom_appliance.disks.erasing import erase, refuse_used
from strongroom_appliance.disks.looking import device_of, size_of, what_it_holds
from strongroom_appliance.disks.partitions import EFI_PARTITION, opened, partitions_on
from strongroom_appliance.finding import ON_EFI, find_answers, mounted
from strongroom_appliance.machine import LIVE_IMAGE, RUN_FOLDER, Machine, run, run_for_code, settle

IMAGE: Final = f"{LIVE_IMAGE}/appliance.raw"
# What the dialogue shows first, after an unattended installation.
RESULT_FILE: Final = f"{RUN_FOLDER}/installation"
_LEAST_BYTES: Final = 4 << 30


def install(
    image: str, disk: str, word: str | None, answers: bytes | None, say: Callable[[str], None]
) -> None:
    """Copy, and put the answers beside. word: the disk's name, if it may be erased.

    Raises ConflictError for a disk that is used, or holds something without the word.
    """
    device = device_of(disk)
    refuse_used(device)
    holds = what_it_holds(device)
    name = os.path.basename(disk)
    if holds and word != name:
        raise ConflictError(
            f"{printable(disk)} holds {holds}; nothing was changed. Give the word `{name}` if "
            "everything on it may be erased"
        )
    expected_digest(image)
    if not os.path.exists(image):
        raise UsageError(f"there is no image {printable(image)}; boot from the ISO, or name it")
    least = least_bytes(image)
    if size_of(device) < least:
        raise UsageError(
            f"{printable(disk)} is smaller than {least / 1e9:.1f} GB; choose another disk"
        )
    erase(device, say)
    copy_image(image, device, say)
    # The first start makes the last partition as large as the disk: systemd-repart, as on a disk
    # that a hypervisor has enlarged.
    run_for_code(["blockdev", "--rereadpt", device])
    settle()
    if answers is not None:
        _put_answers(device, answers, say)
    run_for_code(["sync"])


def least_bytes(image: str) -> int:
    """The least that a disk must have; of a compressed image no one knows exactly."""
    if image.endswith(".zst") or not os.path.exists(image):
        return _LEAST_BYTES
    return os.path.getsize(image)


def install_unattended(say: Callable[[str], None], *, or_ask: bool = False) -> None:
    """Find answers, install as they say, and finish. Raises ConfigurationError without answers.

    or_ask: whether somebody is asked instead, if there is no answer or none says where to.
    """
    try:
        _install_unattended(say, or_ask=or_ask)
    except StrongroomError as error:
        Machine().write(RESULT_FILE, f"The unattended installation failed:\n{error}\n")
        raise


def _install_unattended(say: Callable[[str], None], *, or_ask: bool) -> None:
    found = find_answers(installs=True)
    if found is None:
        if or_ask:
            say("there is no answer file; the console asks for a disk")
            return
        raise ConfigurationError(
            "there is no answer file: put answers.yml on a disk labelled STRONGROOM"
        )
    answers, faults = examine(found.data)
    if answers is None:
        raise ConfigurationError("\n".join(fault.text(found.where) for fault in faults))
    target = answers.installation
    if target is None:
        if or_ask:
            say(f"{found.where} names no disk for the system; the console asks for one")
            return
        raise ConfigurationError(
            f"{found.where}: there is no part `installation`; it names the disk for the system"
        )
    say(f"answers from {found.where}")
    install(IMAGE, *chosen_disk(target, least_bytes(IMAGE), answers.data_disk), found.data, say)
    say("the installation is complete")
    Machine().write(RESULT_FILE, "The installation is complete. Remove the ISO and restart.\n")
    if target.finish != "stay":
        run(["systemctl", "--no-block", target.finish])


def _put_answers(device: str, answers: bytes, say: Callable[[str], None]) -> None:
    """Put the answers on the EFI partition, where the first boot finds them."""
    found = [one for one in partitions_on(device) if one.kind == EFI_PARTITION]
    if not found:
        raise OperatingSystemError(
            f"{device} has no EFI partition for the answers; give them at the first boot by a disk "
            "labelled STRONGROOM"
        )
    with opened(device, found[0]) as place, mounted(place, "rw") as folder:
        path = os.path.join(folder, ON_EFI)
        with open(f"{path}.new", "wb") as file:
            file.write(answers)
            file.flush()
            os.fsync(file.fileno())
        os.rename(f"{path}.new", path)
    say("put the answers beside it")
