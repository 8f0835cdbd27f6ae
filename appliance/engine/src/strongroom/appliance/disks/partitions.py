"""Partitions of a disk that was just written, whatever the kernel knows of them yet."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from strongroom.appliance.machine import run, run_for_code, settle
from strongroom.errors import DamageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

EFI_PARTITION: Final = "c12a7328-f81f-11d2-ba4b-00a0c93ec93b"
_GRAIN_BYTES: Final = 4096


@dataclass(frozen=True, slots=True)
class Partition:
    """number: from 1. start, size: bytes. kind: its type, in lower case."""

    number: int
    start: int
    size: int
    kind: str


def partitions_on(device: str) -> list[Partition]:
    """In the order of their numbers. Raises DamageError if there are none."""
    told = json.loads(run(["sfdisk", "--json", device]))["partitiontable"]
    sector = int(told.get("sectorsize", 512))
    found = [
        Partition(number, one["start"] * sector, one["size"] * sector, one["type"].lower())
        for number, one in enumerate(told.get("partitions", ()), 1)
    ]
    if not found:
        raise DamageError(f"{device} has no partitions after it was copied")
    return found


@contextmanager
def opened(device: str, partition: Partition) -> Iterator[str]:
    """A device that is this part of the disk."""
    words = ["losetup", "--find", "--show", "--offset", str(partition.start)]
    loop = run([*words, "--sizelimit", str(partition.size), device]).strip()
    try:
        yield loop
    finally:
        run_for_code(["losetup", "--detach", loop])
        settle()


def enlarge(device: str, say: Callable[[str], None]) -> None:
    """Let the last partition and its file system (ext4) take the rest of the disk."""
    run(["sfdisk", "--relocate", "gpt-bak-std", device])
    last = max(partitions_on(device), key=lambda one: one.start)
    told = json.loads(run(["sfdisk", "--json", device]))["partitiontable"]
    sector = int(told.get("sectorsize", 512))
    # systemd-repart counts in 4096 bytes; it would round up a partition that ends elsewhere, and
    # fails at each start as there is no room.
    size = ((int(told["lastlba"]) + 1) * sector - last.start) // _GRAIN_BYTES * _GRAIN_BYTES
    words = ["sfdisk", "--no-reread", "--no-tell-kernel", "-N", str(last.number), device]
    run(words, f", {size // sector}\n".encode())
    last = max(partitions_on(device), key=lambda one: one.start)
    with opened(device, last) as place:
        words = ["blkid", "--probe", "--match-tag", "TYPE", "--output", "value", place]
        if run(words, codes=(0, 2)).strip() == "ext4":
            run(["e2fsck", "-f", "-p", place], codes=(0, 1))
            run(["resize2fs", place])
    run_for_code(["blockdev", "--rereadpt", device])
    settle()
    say(f"enlarged partition {last.number} to {last.size / 1e9:.1f} GB")
