from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.director_server import RunningDirector
from kit.web_reader import WebReader


@pytest.fixture(scope="session")
def director(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningDirector]:
    """A director that tests look at; what they change they put back, or does not matter."""
    with RunningDirector(tmp_path_factory.mktemp("director")) as running:
        yield running


@pytest.fixture
def own_director(tmp_path: Path, director: RunningDirector) -> Iterator[RunningDirector]:
    """A director for one test, which may change everything."""
    with RunningDirector(tmp_path, like=director) as running:
        yield running


@pytest.fixture
def admin(own_director: RunningDirector) -> Iterator[WebReader]:
    """A browser with the certificate of admin."""
    with WebReader(own_director, "admin") as reader:
        yield reader
