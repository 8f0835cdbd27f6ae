"""The disk of an unattended installation: the one that is named, or the first that fits."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from strongroom.appliance.answers.kinds import FIRST
from strongroom.appliance.disks.looking import Disk, all_disks
from strongroom.config.values.measures import size_bytes
from strongroom.errors import ConflictError, UsageError
from strongroom.printable import printable

if TYPE_CHECKING:
    from strongroom.appliance.answers.model import Installation


def chosen_disk(target: Installation) -> tuple[str, str | None]:
    """The disk's path, and its name if it may be erased. Raises UsageError, ConflictError."""
    if target.disk != FIRST:
        return target.disk, target.erase
    disk = _first(size_bytes(target.min_size or ""), size_bytes(target.max_size or ""))
    if disk is None:
        raise UsageError(
            "no disk fits: it must be in no use, not removable, and of a size between `min_size` "
            "and `max_size`; `strongroom-installer disks` lists them"
        )
    if disk.holds and target.erase is None:
        raise ConflictError(
            f"the first disk, {printable(disk.name)}, holds {disk.holds}; nothing was changed. "
            f"Write `erase: {FIRST}` if all that is on it may go"
        )
    return disk.name, os.path.basename(disk.name) if target.erase else None


def _first(least: int | None, most: int | None) -> Disk | None:
    for disk in sorted(all_disks(), key=_place):
        fits = (least is None or least <= disk.size) and (most is None or disk.size <= most)
        if fits and not disk.is_used and not disk.is_removable:
            return disk
    return None


def _place(disk: Disk) -> list[tuple[str, int]]:
    """Where the hardware has it; `ata10` is behind `ata9`, whatever was found first."""
    place = os.path.realpath(f"/sys/class/block/{os.path.basename(disk.path)}")
    parts = re.findall(r"([^0-9]*)([0-9]*)", place)
    return [(text, int(number or 0)) for text, number in parts]
