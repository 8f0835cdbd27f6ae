"""Machines and disks of their own; these tests need root."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from kit.private_machine import LoopDisk, PrivateMachine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def machine(tmp_path: Path) -> PrivateMachine:
    if os.geteuid() != 0:
        pytest.skip("setting a machine up needs root")
    return PrivateMachine(tmp_path)


@pytest.fixture
def new_disk(tmp_path: Path) -> Iterator[Callable[..., LoopDisk]]:
    if os.geteuid() != 0:
        pytest.skip("loop devices need root")
    made: list[LoopDisk] = []

    def make(size: int = 400 << 20) -> LoopDisk:
        made.append(LoopDisk(tmp_path / f"disk{len(made)}", size))
        return made[-1]

    yield make
    for disk in made:
        disk.close()
