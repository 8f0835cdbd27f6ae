from collections.abc import Iterator

import pytest

from kit.director_fixtures import director, own_director
from kit.director_server import RunningDirector
from kit.web_reader import WebReader

__all__ = ["director", "own_director"]


@pytest.fixture
def admin(own_director: RunningDirector) -> Iterator[WebReader]:
    """A browser with the certificate of admin."""
    with WebReader(own_director, "admin") as reader:
        yield reader
