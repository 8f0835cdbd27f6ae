"""The data disk once it is made: unlocking one that is encrypted (LUKS2), and using all of it.

It is unlocked with its passphrase or its recovery key; an enlarged disk is used as a whole.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

from strongroom.base.errors import ConflictError, OperatingSystemError, WrongKeyError
from strongroom_appliance.disks.looking import device_of, size_of
from strongroom_appliance.machine import MOUNT_POINT, is_enabled, run, run_for_code, settle, shown
from strongroom_appliance.state import State

# What is inside the encryption.
INSIDE: Final = "/dev/mapper/strongroom-data"
NAME: Final = os.path.basename(INSIDE)
_GROW: Final = "/usr/lib/systemd/systemd-growfs"
# Less is what the encryption needs for itself.
_LEAST_GROWTH: Final = 64 << 20
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
    code, output = run_for_code([*words, "-", device, NAME], passphrase.encode())
    if code == _WRONG_PASSPHRASE:
        raise WrongKeyError(f"{device} does not open with this passphrase; try another")
    if code:
        raise OperatingSystemError(f"{device} cannot be unlocked: {shown(output)}")
    settle()
    return INSIDE


def lock(luks_uuid: str) -> None:
    """Lock a disk that an interrupted attempt has left unlocked. Raises ConflictError."""
    if not is_unlocked():
        return
    output = run(["cryptsetup", "status", NAME], codes=(0, 4))
    code, found = run_for_code(["cryptsetup", "luksUUID", _device_in(output)])
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
        if is_enabled(unit):
            run(["systemctl", "start", unit])
            say(f"started {unit}")


def grow(state: State, did: Callable[[str], None], say: Callable[[str], None]) -> None:
    """Enlarge the file system, which is mounted, if its disk is larger than it was."""
    plan = state.known.disk
    assert plan is not None
    size = size_of(device_of(plan.device))
    if size <= plan.size + _LEAST_GROWTH:
        return
    # Encryption has the size that the disk had when it was unlocked.
    if plan.encryption != "none" and size_of(INSIDE) + _LEAST_GROWTH < size:
        say(f"{plan.device} was enlarged, and is used as a whole after a restart")
        return
    run([_GROW, MOUNT_POINT])
    plan.size = size
    state.write()
    did(f"enlarged the file system on {plan.device} to {size / 1e9:.1f} GB")
