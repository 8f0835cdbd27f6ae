"""A repository of few files, in memory: jobs make thousands of small objects durable."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kit.tiny_backup import new_repository
from strongroom.stores.local import LocalStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from strongroom.repo.repository import Repository


@pytest.fixture
def repository(folder: Path) -> Iterator[Repository]:
    made = new_repository(LocalStore(str(folder / "repository")))
    yield made
    made.close()
