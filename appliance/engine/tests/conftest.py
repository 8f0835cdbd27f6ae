"""What tests of several rooms use; generated examples have no deadline, as machines are busy."""

from __future__ import annotations

import gc
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from kit import object_server
from kit.command import Command
from kit.descriptors import open_as
from kit.memory_folder import memory_folder
from kit.object_server import ObjectServer
from kit.postgresql_cluster import Cluster
from kit.tree_removal import remove_tree

if TYPE_CHECKING:
    from kit.director_server import RunningDirector

# What started commands have compiled is kept: else each of them compiles the engine anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Open by a module when it ends: what fixtures of the session hold, and little more.
_MOST_LEFT = 100

settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")


@pytest.fixture(scope="module", autouse=True)
def _descriptors() -> Iterator[None]:
    """A module leaves few descriptors behind: a worker runs hundreds, and has 1,024 of them."""
    before = set(os.listdir("/proc/self/fd"))
    yield
    if len(os.listdir("/proc/self/fd")) > len(before) + _MOST_LEFT:
        gc.collect()
        left = [open_as(name) for name in set(os.listdir("/proc/self/fd")) - before]
        assert len(left) <= _MOST_LEFT, left


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
def public_folder() -> Iterator[Path]:
    """A folder on a real file system that every user may enter, which pytest's own are not."""
    made = Path(tempfile.mkdtemp(prefix="strongroom-"))
    made.chmod(0o755)
    yield made
    remove_tree(os.fsencode(made))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """An empty folder on a real file system."""
    made = tmp_path / "tree"
    made.mkdir()
    return made


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Another one, by a path that leads over no link."""
    made = tmp_path.resolve() / "source"
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
    # Only here: most sessions of a developer need no database, and its libraries load slowly.
    from kit.postgresql_cluster import new_cluster

    with new_cluster() as server:
        yield server


@pytest.fixture(scope="session")
def object_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectServer]:
    """A server that speaks S3, and our keys of it in the environment."""
    with pytest.MonkeyPatch.context() as environment:
        for name, value in object_server.ENVIRONMENT.items():
            environment.setenv(name, value)
        yield from object_server.usual(tmp_path_factory.mktemp("object-store"))


@pytest.fixture(scope="session")
def first_director(tmp_path_factory: pytest.TempPathFactory) -> RunningDirector:
    """One that is never started: others copy its repository."""
    from kit.director_server import RunningDirector

    return RunningDirector(tmp_path_factory.mktemp("first-director"))
