from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kit.user import User

if TYPE_CHECKING:
    from collections.abc import Iterator

MEMORY = Path("/dev/shm")


@pytest.fixture(scope="session")
def empty_user() -> Iterator[Path]:
    """A user's folder with an empty repository; making one costs a second, so it is copied."""
    folder = Path(tempfile.mkdtemp(prefix="backup-tests-", dir=MEMORY if MEMORY.is_dir() else None))
    (folder / "home").mkdir()
    User(folder).init()
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def user(empty_user: Path) -> Iterator[User]:
    """A user with an empty repository, in memory."""
    folder = Path(tempfile.mkdtemp(prefix="backup-tests-", dir=empty_user.parent))
    shutil.copytree(empty_user, folder, dirs_exist_ok=True)
    yield User(folder)
    shutil.rmtree(folder)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """An empty folder on a real file system."""
    folder = tmp_path.resolve() / "source"
    folder.mkdir()
    return folder
