"""A repository of its own for each test, driven with the real command."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kit.command import Command

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def command(tmp_path: Path) -> Command:
    made = Command(tmp_path)
    made.make_repository()
    return made


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    made = tmp_path / "tree"
    made.mkdir()
    return made
