"""Further ways into an encrypted data disk: the TPM 2.0 of this machine, and a recovery key.

The passphrase stays in any case. The TPM gives its secret to a machine that was started as this one
(PCR 7: whether firmware checked what it started, and with whose keys), which an update of the
system does not change.
"""

from __future__ import annotations

import os
from typing import Final

from strongroom.base.errors import ConflictError, OperatingSystemError, WrongKeyError
from strongroom_appliance.disks.looking import tags
from strongroom_appliance.machine import run, run_for_code, shown
from strongroom_appliance.state import State

_DEVICE: Final = "/dev/tpmrm0"
_ENROL: Final = "systemd-cryptenroll"
_PCRS: Final = "7"


def need_tpm() -> None:
    """Raise ConflictError if this machine has no TPM 2.0."""
    if not os.path.exists(_DEVICE):
        raise ConflictError(
            "this machine has no TPM 2.0; nothing was changed. Switch it on in the firmware, or "
            "write `encryption: passphrase`"
        )


def seal(device: str, passphrase: str) -> None:
    """Let the TPM unlock it, and no other TPM. Raises WrongKeyError, OperatingSystemError."""
    _check(device, passphrase)
    options = ["--tpm2-device=auto", f"--tpm2-pcrs={_PCRS}", "--wipe-slot=tpm2"]
    run([_ENROL, *options, "--unlock-key-file=/dev/stdin", device], passphrase.encode())


def new_recovery_key(passphrase: str) -> str:
    """Make a recovery key of the data disk, in place of one there was.

    Raises ConflictError without an encrypted disk, WrongKeyError, OperatingSystemError.
    """
    plan = State().known.disk
    if plan is None or plan.encryption == "none" or not plan.is_made:
        raise ConflictError("this machine has no encrypted data disk")
    device = _device(plan.luks_uuid)
    _check(device, passphrase)
    options = ["--recovery-key", "--wipe-slot=recovery", "--unlock-key-file=/dev/stdin"]
    output = run([_ENROL, *options, device], passphrase.encode())
    key = output.split()[0] if output.split() else ""
    if len(key) < 64:
        raise OperatingSystemError(f"`{_ENROL}` gave no key: {shown(output)}")
    return key


def _check(device: str, passphrase: str) -> None:
    # Without asking the TPM, which would open it whatever the passphrase is.
    words = ["cryptsetup", "open", "--test-passphrase", "--disable-external-tokens", "--key-file"]
    if run_for_code([*words, "-", device], passphrase.encode())[0]:
        raise WrongKeyError(f"{device} does not open with this passphrase; try another")


def _device(luks_uuid: str) -> str:
    device = run(
        ["blkid", "--match-token", f"UUID={luks_uuid}", "--output", "device"], codes=(0, 2)
    )
    if not device.strip() or tags(device.split()[0]).get("TYPE") != "crypto_LUKS":
        raise ConflictError("the data disk is not there; connect it")
    return device.split()[0]
