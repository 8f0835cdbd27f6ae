"""Folders in memory, and a repository of few files in one of them.

These tests make thousands of small objects durable; on a disk they would only wait for it.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.tiny_backup import new_repository
from strongroom.repo.repository import Repository
from strongroom.stores.local import LocalStore

MEMORY = "/dev/shm"


def make_folder() -> Path:
    return Path(
        tempfile.mkdtemp(prefix="strongroom-", dir=MEMORY if os.path.isdir(MEMORY) else None)
    )


@pytest.fixture
def folder() -> Iterator[Path]:
    made = make_folder()
    yield made
    shutil.rmtree(made)


@pytest.fixture(scope="module")
def module_folder() -> Iterator[Path]:
    made = make_folder()
    yield made
    shutil.rmtree(made)


@pytest.fixture
def repository(folder: Path) -> Iterator[Repository]:
    made = new_repository(LocalStore(str(folder / "repository")))
    yield made
    made.close()
