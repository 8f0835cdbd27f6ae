from collections.abc import Iterator

import httpx
import pytest

from kit.connections import House
from kit.director_fixtures import director, own_director
from kit.director_server import RunningDirector

__all__ = ["director", "own_director"]


@pytest.fixture(scope="session")
def house(tmp_path_factory: pytest.TempPathFactory) -> House:
    return House(tmp_path_factory.mktemp("house"))


@pytest.fixture
def admin(own_director: RunningDirector) -> Iterator[httpx.Client]:
    """Connections with the certificate of admin."""
    with own_director.client("admin") as api:
        yield api
