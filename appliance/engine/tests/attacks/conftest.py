"""A storage daemon in memory, for attackers who hold an agent's certificate and put key; and a
director that listens, for those who ask its API."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.director_server import RunningDirector
from kit.memory_store import MemoryStore
from kit.storage_fixtures import appliance, daemon, make_daemon, open_as, site
from kit.tiny_backup import new_repository
from strongroom.engine.repository.repository import Repository

__all__ = ["appliance", "daemon", "make_daemon", "open_as", "site"]


@pytest.fixture
def house() -> Iterator[Repository]:
    """A repository in the hands of its appliance."""
    made = new_repository(MemoryStore())
    yield made.for_all_clients()
    made.close()


@pytest.fixture
def asked_director(tmp_path: Path, first_director: RunningDirector) -> Iterator[RunningDirector]:
    """A director of one test's own."""
    with RunningDirector(tmp_path, like=first_director) as running:
        yield running
