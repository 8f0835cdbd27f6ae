"""Encrypted data disk (LUKS2): unlocking with its passphrase, or with its recovery key."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from strongroom.appliance.disks.growing import INSIDE, grow
from strongroom.appliance.machine import MOUNT_POINT, run, run_for_code, settle, shown
from strongroom.appliance.state import State
from strongroom.errors import ConflictError, OperatingSystemError, WrongKeyError

if TYPE_CHECKING:
    from collections.abc import Callable

NAME: Final = os.path.basename(INSIDE)
_WRONG_PASSPHRASE: Final = 2
_DAEMONS: Final = ("strongroom-storage.service", "strongroom-director.service")


def is_unlocked() -> bool:
    """Whether the inside of the disk is there."""
    return os.path.exists(INSIDE)


def unlock(device: str, passphrase: str) -> str:
    """Unlock; the device inside. Raises WrongKeyError, OperatingSystemError."""
    if is_unlocked():
        return INSIDE
    # Without asking the TPM, which would open it whatever the passphrase is.
    words = ["cryptsetup", "open", "--type", "luks2", "--disable-external-tokens", "--key-file"]
    code, said = run_for_code([*words, "-", device, NAME], passphrase.encode())
    if code == _WRONG_PASSPHRASE:
        raise WrongKeyError(f"{device} does not open with this passphrase; try another")
    if code:
        raise OperatingSystemError(f"{device} cannot be unlocked: {shown(said)}")
    settle()
    return INSIDE


def lock(luks_uuid: str) -> None:
    """Lock a disk that an interrupted attempt has left unlocked. Raises ConflictError."""
    if not is_unlocked():
        return
    said = run(["cryptsetup", "status", NAME], codes=(0, 4))
    code, found = run_for_code(["cryptsetup", "luksUUID", _device_in(said)])
    if code == 0 and found.strip() != luks_uuid:
        raise ConflictError(f"another disk is unlocked as {NAME}; lock it first: cryptsetup close")
    run(["cryptsetup", "close", NAME])


def _device_in(status: str) -> str:
    for line in status.splitlines():
        name, _, value = line.strip().partition(":")
        if name == "device":
            return value.strip()
    return ""


def is_encrypted() -> bool:
    """Whether there is a data disk, and it is encrypted."""
    plan = State().known.disk
    return plan is not None and plan.is_made and plan.encryption != "none"


def is_waiting() -> bool:
    """Whether the data disk is encrypted and not mounted."""
    return is_encrypted() and not os.path.ismount(MOUNT_POINT)


def unlock_and_start(passphrase: str, say: Callable[[str], None]) -> None:
    """Unlock the data disk after a start, mount it and start what waits for it."""
    state = State()
    plan = state.known.disk
    if plan is None or plan.encryption == "none":
        raise ConflictError("this machine has no encrypted data disk")
    if not os.path.ismount(MOUNT_POINT):
        unlock(f"UUID={plan.luks_uuid}", passphrase)
        run(["mount", MOUNT_POINT])
        say(f"mounted {MOUNT_POINT}")
    grow(state, say, say)
    for unit in _DAEMONS:
        if run_for_code(["systemctl", "is-enabled", "--quiet", unit])[0] == 0:
            run(["systemctl", "start", unit])
            say(f"started {unit}")
