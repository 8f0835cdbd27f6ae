"""Machines and their own disks; these tests need root."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from appliance_kit.private_machine import LoopDisk, PrivateMachine
from kit.memory_folder import memory_folder

# What started programs have compiled is kept: else each of them compiles everything anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")


@pytest.fixture
def folder() -> Iterator[Path]:
    """An empty folder in memory."""
    with memory_folder() as made:
        yield made


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
