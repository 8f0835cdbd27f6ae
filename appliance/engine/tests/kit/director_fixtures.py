"""Fixtures: directors on loopback. A room that imports them has its own `director`."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.director_server import RunningDirector


@pytest.fixture(scope="session")
def director(
    tmp_path_factory: pytest.TempPathFactory, first_director: RunningDirector
) -> Iterator[RunningDirector]:
    """A director that tests look at; what they change they put back, or does not matter."""
    with RunningDirector(tmp_path_factory.mktemp("director"), like=first_director) as running:
        yield running


@pytest.fixture
def own_director(tmp_path: Path, first_director: RunningDirector) -> Iterator[RunningDirector]:
    """A director for one test, which may change everything."""
    with RunningDirector(tmp_path, like=first_director) as running:
        yield running
