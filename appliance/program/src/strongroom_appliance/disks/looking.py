"""What a disk holds and who uses it. The rules are those of the Ansible module data_disk.

A disk is free if nothing recognises anything on it, nothing uses it, and it begins with zeros.
"""

from __future__ import annotations

import json
import os
import stat
from dataclasses import dataclass
from typing import Any, Final

from strongroom.base.errors import UsageError
from strongroom.base.printable import printable
from strongroom_appliance.machine import run, run_for_code

_CHECKED_BYTES: Final = 16 << 20
_PIECE_BYTES: Final = 1 << 20
_NOTHING_FOUND: Final = 2
_COLUMNS: Final = "NAME,PATH,TYPE,SIZE,MODEL,SERIAL,RO,RM,TRAN,FSTYPE,LABEL,PTTYPE,MOUNTPOINTS"


@dataclass(frozen=True, slots=True)
class Disk:
    """A disk as it is offered.

    name: a path that stays; holds: in words, "" if it is empty; is_removable: also all of USB.
    """

    name: str
    path: str
    size: int
    model: str
    serial: str
    holds: str
    is_used: bool
    is_removable: bool

    def description(self) -> list[str]:
        """What tells it from others: its name, then all the rest."""
        state = "in use" if self.is_used else f"HOLDS {self.holds}" if self.holds else "empty"
        model = " ".join(filter(None, (self.model, self.serial and f"serial {self.serial}")))
        parts = (f"{self.size / 1e9:.1f} GB", self.path, model, state)
        return [self.name, "  ".join(filter(None, parts))]


def device_of(path: str) -> str:
    """The device that a name leads to. Raises UsageError."""
    device = os.path.realpath(path)
    try:
        mode = os.stat(device).st_mode
    except OSError as error:
        raise UsageError(
            f"there is no disk {printable(path)}; see `strongroom-appliance disks`"
        ) from error
    if not stat.S_ISBLK(mode):
        raise UsageError(f"{printable(path)} is not a disk; see `strongroom-appliance disks`")
    return device


def tags(device: str) -> dict[str, str]:
    """What libblkid recognises, such as {"TYPE": "xfs"}; read from the disk, never a cache."""
    words = ["blkid", "--probe", "--output", "export", device]
    code, output = run_for_code(words)
    if code not in (0, _NOTHING_FOUND):
        # Several things are recognised at once.
        return {"TYPE": "something ambiguous"}
    return dict(line.split("=", 1) for line in output.splitlines() if "=" in line)


def size_of(device: str) -> int:
    """Bytes."""
    descriptor = os.open(device, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.lseek(descriptor, 0, os.SEEK_END)
    finally:
        os.close(descriptor)


def partitions_of(device: str) -> list[str]:
    """Names of the partitions that the kernel knows."""
    folder = _folder(device)
    names = os.listdir(folder) if os.path.isdir(folder) else []
    return sorted(one for one in names if os.path.exists(os.path.join(folder, one, "partition")))


def users_of(device: str) -> list[str]:
    """What keeps a disk from being erased: mounts, swap, and devices made of it."""
    found = []
    for name in (os.path.basename(os.path.realpath(device)), *partitions_of(device)):
        folder = _folder(f"/dev/{name}")
        holders = os.path.join(folder, "holders")
        found += sorted(os.listdir(holders)) if os.path.isdir(holders) else []
        found += _mounts(f"/dev/{name}")
    return found


def what_it_holds(device: str) -> str:
    """In words; empty if there is nothing."""
    found = tags(device)
    if found:
        return printable(found.get("TYPE") or found.get("PTTYPE") or "something", 40)
    if partitions_of(device):
        return f"partitions ({', '.join(partitions_of(device))})"
    return "data of a kind that is not known" if _has_data(device) else ""


def all_disks() -> list[Disk]:
    """Disks of this machine that can be written, whole ones only."""
    listed = json.loads(run(["lsblk", "--json", "--bytes", "--output", _COLUMNS]))
    found = []
    for one in listed["blockdevices"]:
        is_disk = one["type"] in ("disk", "loop") and not one["ro"]
        if not is_disk or not one["size"] or one["path"].startswith(("/dev/zram", "/dev/fd")):
            continue
        used = bool(users_of(one["path"])) or _is_mounted(one)
        holds = what_it_holds(one["path"])
        model, serial = (printable((one[key] or "").strip()) for key in ("model", "serial"))
        found.append(
            Disk(
                stable_name(one["path"]),
                one["path"],
                int(one["size"]),
                model,
                serial,
                holds,
                used,
                bool(one["rm"]) or one["tran"] == "usb",
            )
        )
    return found


def stable_name(path: str) -> str:
    """A name below /dev/disk/by-id that leads to a device, or its path."""
    folder = "/dev/disk/by-id"
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    for name in sorted(names, key=lambda one: (one.startswith(("dm-", "wwn-", "nvme-eui")), one)):
        if os.path.realpath(os.path.join(folder, name)) == os.path.realpath(path):
            return os.path.join(folder, name)
    return path


def _is_mounted(listed: dict[str, Any]) -> bool:
    return any(listed.get("mountpoints") or ()) or any(
        map(_is_mounted, listed.get("children") or ())
    )


def _folder(device: str) -> str:
    try:
        number = os.stat(device).st_rdev
    except OSError:
        return ""
    return f"/sys/dev/block/{os.major(number)}:{os.minor(number)}"


def _mounts(device: str) -> list[str]:
    number = os.stat(device).st_rdev
    shown = f"{os.major(number)}:{os.minor(number)}"
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        mounted = [line.split()[4] for line in file if line.split()[2] == shown]
    with open("/proc/swaps", encoding="utf-8", errors="surrogateescape") as file:
        swaps = [line.split()[0] for line in file][1:]
    return mounted + [f"swap on {one}" for one in swaps if os.path.realpath(one) == device]


def _has_data(device: str) -> bool:
    nothing = bytes(_PIECE_BYTES)
    try:
        file = open(device, "rb", buffering=0)  # noqa: SIM115 - closed below
    except OSError:
        return True
    with file:
        for _ in range(_CHECKED_BYTES // _PIECE_BYTES):
            piece = file.read(_PIECE_BYTES)
            if not piece:
                break
            if piece != nothing[: len(piece)]:
                return True
    return False
