"""What tests of several rooms use; generated examples have no deadline, as machines are busy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from kit.command import Command
from kit.memory_folder import memory_folder
from kit.postgresql_cluster import Cluster, new_cluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")


@pytest.fixture
def folder() -> Iterator[Path]:
    """An empty folder in memory."""
    with memory_folder() as made:
        yield made


@pytest.fixture(scope="module")
def module_folder() -> Iterator[Path]:
    """A folder in memory for all tests of a module."""
    with memory_folder() as made:
        yield made


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """An empty folder on a real file system."""
    made = tmp_path / "tree"
    made.mkdir()
    return made


@pytest.fixture
def command(tmp_path: Path) -> Command:
    """The real command, and a repository of the test's own."""
    made = Command(tmp_path)
    made.make_repository()
    return made


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A PostgreSQL for all tests that need one; a test that stops it starts it again."""
    with new_cluster() as server:
        yield server
