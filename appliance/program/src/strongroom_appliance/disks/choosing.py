"""The disk of an unattended installation: the one that is named, or the first that fits."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from strongroom.base.errors import ConflictError, UsageError
from strongroom.base.printable import printable
from strongroom.config.values.measures import size_bytes
from strongroom_appliance.answers.kinds import FIRST
from strongroom_appliance.disks.looking import Disk, all_disks, partitions_of

if TYPE_CHECKING:
    from strongroom_appliance.answers.model import DataDisk, Installation


def chosen_disk(
    target: Installation, least_bytes: int, data: DataDisk | None
) -> tuple[str, str | None]:
    """The disk's path, and its name if it may be erased. Raises UsageError, ConflictError.

    least_bytes: what the image needs. data: the disk for backups, which is never the first.
    """
    if target.disk != FIRST:
        return target.disk, target.erase
    least = max(least_bytes, size_bytes(target.min_size or "") or 0)
    most = size_bytes(target.max_size or "")
    disk = _first(least, most, os.path.realpath(data.device) if data else "")
    if disk is None:
        upper = f" and at most {most / 1e9:.1f}" if most else ""
        raise UsageError(
            f"no disk fits: it must be in no use, not removable, not the data disk, and have at "
            f"least {least / 1e9:.1f}{upper} GB; see `strongroom-appliance disks`"
        )
    if disk.holds and target.erase is None:
        raise ConflictError(
            f"the first disk, {printable(disk.name)}, holds {disk.holds}; nothing was changed. "
            f"Write `erase: {FIRST}` if everything on it may be erased"
        )
    return disk.name, os.path.basename(disk.name) if target.erase else None


def _first(least: int, most: int | None, other: str) -> Disk | None:
    for disk in sorted(all_disks(), key=_place):
        fits = least <= disk.size and (most is None or disk.size <= most)
        # The other one may be a partition.
        is_other = disk.path == other or os.path.basename(other) in partitions_of(disk.path)
        if fits and not (disk.is_used or disk.is_removable or is_other):
            return disk
    return None


def _place(disk: Disk) -> list[tuple[str, int]]:
    """Where the hardware has it; `ata10` is behind `ata9`, whatever was found first."""
    place = os.path.realpath(f"/sys/class/block/{os.path.basename(disk.path)}")
    parts = re.findall(r"([^0-9]*)([0-9]*)", place)
    return [(text, int(number or 0)) for text, number in parts]
