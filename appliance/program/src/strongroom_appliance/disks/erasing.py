"""Erasing a disk: only one that nothing uses."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

from strongroom.base.errors import ConflictError
from strongroom.base.printable import printable
from strongroom_appliance.disks.looking import partitions_of, users_of
from strongroom_appliance.machine import run, run_for_code, settle

_HEAD_BYTES: Final = 16 << 20
_PIECE_BYTES: Final = 1 << 20


def refuse_used(device: str) -> None:
    """Raise ConflictError if anything uses a disk."""
    users = users_of(device)
    if users:
        raise ConflictError(
            f"{device} is used ({printable(', '.join(users), 80)}); nothing was changed. Choose "
            "another disk, or unmount it first"
        )


def erase(device: str, say: Callable[[str], None]) -> None:
    """Remove what could be recognised on a disk and its partitions. Raises ConflictError."""
    refuse_used(device)
    say(f"erases {device}")
    for name in partitions_of(device):
        run(["wipefs", "--all", "--force", f"/dev/{name}"])
    run(["wipefs", "--all", "--force", device])
    descriptor = os.open(device, os.O_WRONLY | os.O_CLOEXEC)
    try:
        size = os.lseek(descriptor, 0, os.SEEK_END)
        for start in range(0, min(_HEAD_BYTES, size), _PIECE_BYTES):
            os.pwrite(descriptor, bytes(min(_PIECE_BYTES, size - start)), start)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    run_for_code(["blockdev", "--rereadpt", device])
    settle()
