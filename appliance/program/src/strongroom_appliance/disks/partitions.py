"""Partitions of a disk that was just written, whatever the kernel knows of them yet."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from strongroom.base.errors import DamageError
from strongroom_appliance.machine import run, run_for_code, settle

EFI_PARTITION: Final = "c12a7328-f81f-11d2-ba4b-00a0c93ec93b"


@dataclass(frozen=True, slots=True)
class Partition:
    """number: from 1. start, size: bytes. kind: its type, in lower case."""

    number: int
    start: int
    size: int
    kind: str


def partitions_on(device: str) -> list[Partition]:
    """In the order of their numbers. Raises DamageError if there are none."""
    table = json.loads(run(["sfdisk", "--json", device]))["partitiontable"]
    sector = int(table.get("sectorsize", 512))
    found = [
        Partition(number, one["start"] * sector, one["size"] * sector, one["type"].lower())
        for number, one in enumerate(table.get("partitions", ()), 1)
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
