"""The data disk: XFS at /srv/strongroom, encrypted if that is wanted.

What is on a disk stays, unless `erase` names the disk. Before the first byte is written, the plan
is on disk: the device, its size, and the ids that the new file systems get. So after a power cut
the formatting begins anew on this disk only, and only until it was finished once.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from typing import Final

from strongroom.base import clock
from strongroom.base.errors import ConflictError, UsageError
from strongroom.base.printable import printable
from strongroom_appliance.answers.model import DataDisk
from strongroom_appliance.disks import tpm, unlocking
from strongroom_appliance.disks.erasing import erase, refuse_used
from strongroom_appliance.disks.looking import device_of, size_of, stable_name, tags, what_it_holds
from strongroom_appliance.machine import MOUNT_POINT, run, settle
from strongroom_appliance.state import DiskPlan
from strongroom_appliance.steps.context import Context

_LABEL: Final = "strongroom"
# A disk that was enlarged is used as a whole after the next mount.
_OPTIONS: Final = "noatime,nodev,nosuid,noexec,nofail,x-systemd.growfs"
SANDBOX: Final = "/etc/systemd/system/strongroom-storage.service.d/40-data-disk.conf"


def set_data_disk(context: Context) -> None:
    """Choose, format, mount. Raises ConflictError for a disk that is not free."""
    disk = context.answers.data_disk
    assert disk is not None
    settle()
    device = device_of(disk.device)
    plan = _plan(context, disk, device)
    if not plan.is_made:
        _format(context, disk, plan, device)
    if plan.encryption == "tpm2" and not plan.is_sealed:
        _seal(context, disk, plan, device)
    _note_in_tables(context, plan)
    _mount(context, disk, plan)
    unlocking.grow(context.state, context.did, context.say)


def _plan(context: Context, disk: DataDisk, device: str) -> DiskPlan:
    known = context.state.known
    plan = known.disk
    if plan is not None and plan.device == disk.device:
        if plan.encryption != disk.encryption:
            raise ConflictError(
                f"{plan.device} was made with encryption `{plan.encryption}`, and stays so; name "
                "another disk"
            )
        _refuse_another(plan, disk, device)
        return plan
    if plan is not None and plan.is_made:
        raise ConflictError(
            f"{plan.device} is the data disk; move its backups first (`strongroom copy`), then "
            f"remove the line of {MOUNT_POINT} in /etc/fstab and `disk` in the state file"
        )
    if disk.encryption == "tpm2":
        tpm.need_tpm()
    plan = _taken_over(context, disk, device)
    if plan is None:
        if disk.erase is None:
            _refuse_what_is_there(disk, device)
        else:
            refuse_used(device)
        plan = DiskPlan(
            device=disk.device,
            stable_name=stable_name(device),
            size=size_of(device),
            encryption=disk.encryption,
            luks_uuid=_new_id(),
            xfs_uuid=_new_id(),
        )
    known.disk = plan
    context.state.write()
    return plan


def _refuse_another(plan: DiskPlan, disk: DataDisk, device: str) -> None:
    """Raise ConflictError if this is another disk than the plan was made for."""
    found = tags(device)
    is_ours = found.get("UUID") in (plan.luks_uuid, plan.xfs_uuid)
    if plan.is_made:
        # It may be larger than it was.
        is_strange = not is_ours
    else:
        is_strange = bool(found.get("TYPE")) and not is_ours and disk.erase is None
        is_strange |= plan.size != size_of(device)
    if is_strange or plan.stable_name != stable_name(device):
        raise ConflictError(
            f"{plan.device} is another disk than before; nothing was changed. Put the disk back, "
            "or remove `disk` from the state file if the new one is to be used"
        )


def _taken_over(context: Context, disk: DataDisk, device: str) -> DiskPlan | None:
    """The plan of a disk that is ready already."""
    if disk.erase is not None:
        return None
    found = tags(device)
    luks = ""
    if found.get("TYPE") == "crypto_LUKS" and disk.encryption != "none":
        luks = found.get("UUID", "")
        assert disk.passphrase is not None
        inside = unlocking.unlock(device, disk.passphrase)
        found = tags(inside)
    elif found.get("TYPE") == "crypto_LUKS":
        raise ConflictError(
            f"{disk.device} is encrypted; write `encryption: passphrase` and its passphrase"
        )
    elif disk.encryption != "none" and found.get("TYPE") == "xfs":
        raise ConflictError(
            f"{disk.device} holds XFS that is not encrypted; write `encryption: none` to use it, "
            f"or `erase: {os.path.basename(disk.device)}` if everything on it may be erased"
        )
    if found.get("TYPE") != "xfs":
        if luks:
            raise ConflictError(f"{disk.device} holds no XFS file system inside its encryption")
        return None
    context.did(f"kept the file system on {disk.device}")
    return DiskPlan(
        device=disk.device,
        stable_name=stable_name(device),
        size=size_of(device),
        encryption=disk.encryption,
        luks_uuid=luks,
        xfs_uuid=found.get("UUID", ""),
        is_made=True,
    )


def _refuse_what_is_there(disk: DataDisk, device: str) -> None:
    refuse_used(device)
    holds = what_it_holds(device)
    if holds:
        raise ConflictError(
            f"{printable(disk.device)} holds {holds}; nothing was changed. Choose another disk, or "
            f"write `erase: {os.path.basename(disk.device)}` if everything on it may be erased"
        )


def _format(context: Context, disk: DataDisk, plan: DiskPlan, device: str) -> None:
    """Format a disk that the plan says was free, or may be erased."""
    if plan.encryption != "none":
        unlocking.lock(plan.luks_uuid)
    # Also what an interrupted attempt of ours has left.
    erase(device, context.say)
    place = device
    if plan.encryption != "none":
        if disk.passphrase is None:
            raise UsageError("data_disk: the passphrase is needed to finish the disk")
        words = ["cryptsetup", "luksFormat", "--batch-mode", "--type", "luks2"]
        words += ["--uuid", plan.luks_uuid, "--label", "strongroom-data", "--key-file", "-", device]
        run(words, disk.passphrase.encode())
        context.did(f"encrypted {plan.device}")
        place = unlocking.unlock(device, disk.passphrase)
    words = ["mkfs.xfs", "-q", "-f", "-m", f"reflink=1,bigtime=1,uuid={plan.xfs_uuid}"]
    run([*words, "-L", _LABEL, place])
    for one in (place, device):
        descriptor = os.open(one, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    plan.is_made = True
    context.state.write()
    context.did(f"made an XFS file system on {plan.device}")


def _seal(context: Context, disk: DataDisk, plan: DiskPlan, device: str) -> None:
    """Let the TPM of this machine unlock it; that of a machine that is lost no longer does."""
    if disk.passphrase is None:
        raise UsageError("data_disk: the passphrase is needed to let the TPM unlock the disk")
    tpm.seal(device, disk.passphrase)
    plan.is_sealed = True
    context.state.write()
    context.did(f"let the TPM unlock {plan.device}")


def _note_in_tables(context: Context, plan: DiskPlan) -> None:
    machine = context.machine
    options = _OPTIONS
    locked = plan.encryption != "none"
    if locked:
        # Without somebody who waits at the console for a question.
        alone = plan.encryption == "tpm2"
        options += f",{'' if alone else 'noauto,'}x-systemd.device-timeout={90 if alone else 5}s"
        how = "nofail,headless=true,tpm2-device=auto" if alone else "noauto"
        line = f"{unlocking.NAME} UUID={plan.luks_uuid} none luks,{how}"
        table = _with_line(machine.read("/etc/crypttab") or "", unlocking.NAME, 0, line)
        machine.write("/etc/crypttab", table)
    line = f"UUID={plan.xfs_uuid} {MOUNT_POINT} xfs {options} 0 0"
    table = _with_line(machine.read("/etc/fstab") or "", MOUNT_POINT, 1, line)
    if machine.write("/etc/fstab", table):
        context.did(f"entered {MOUNT_POINT} in /etc/fstab")
    needs = (
        f"After=srv-strongroom.mount\nConditionPathIsMountPoint={MOUNT_POINT}\n"
        if locked
        else f"RequiresMountsFor={MOUNT_POINT}\n"
    )
    text = f"# Written by Strongroom.\n[Unit]\n{needs}\n[Service]\nReadWritePaths=-{MOUNT_POINT}\n"
    machine.write(SANDBOX, text)


def _with_line(table: str, word: str, position: int, line: str) -> str:
    """A table with one line for `word`, which is at `position` of it."""
    kept = []
    for one in table.splitlines():
        words = one.split()
        if len(words) > position and words[position] == word and not one.startswith("#"):
            continue
        kept.append(one)
    return "\n".join([*kept, line, ""])


def _mount(context: Context, disk: DataDisk, plan: DiskPlan) -> None:
    if os.path.ismount(MOUNT_POINT):
        return
    if plan.encryption != "none" and not unlocking.is_unlocked():
        if disk.passphrase is None:
            raise UsageError("data_disk: the passphrase is needed to unlock the disk")
        unlocking.unlock(f"UUID={plan.luks_uuid}", disk.passphrase)
    with contextlib.suppress(FileExistsError):
        os.mkdir(MOUNT_POINT, 0o755)
    if context.machine.is_running:
        run(["systemctl", "daemon-reload"])
    settle()
    run(["mount", MOUNT_POINT])
    context.did(f"mounted {MOUNT_POINT}")


def _new_id() -> str:
    return str(uuid.UUID(bytes=clock.random_bytes(16), version=4))
