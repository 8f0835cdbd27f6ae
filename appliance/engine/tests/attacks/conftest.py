"""A storage daemon in memory, for attackers who hold an agent's certificate and put key; and a
director that listens, for those who ask its API."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.director_server import RunningDirector
from kit.storage_fixtures import appliance, daemon, make_daemon, open_as

__all__ = ["appliance", "daemon", "make_daemon", "open_as"]


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningDirector]:
    """A director whose repository others copy."""
    with RunningDirector(tmp_path_factory.mktemp("director")) as running:
        yield running


@pytest.fixture
def asked_director(tmp_path: Path, template: RunningDirector) -> Iterator[RunningDirector]:
    """A director of one test's own."""
    with RunningDirector(tmp_path, like=template) as running:
        yield running
