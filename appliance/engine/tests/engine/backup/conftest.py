from __future__ import annotations

from pathlib import Path

import pytest

from kit.user import User


@pytest.fixture
def user(folder: Path) -> User:
    """A user with an empty repository, in memory."""
    (folder / "home").mkdir()
    made = User(folder)
    made.make_repository()
    return made
