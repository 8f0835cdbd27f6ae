"""A storage daemon of the test's own, in memory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kit import object_server
from kit.object_server import ObjectServer
from kit.storage_fixtures import appliance, daemon, make_daemon, open_as, site

__all__ = ["appliance", "daemon", "make_daemon", "open_as", "site"]


@pytest.fixture(scope="session")
def object_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectServer]:
    """A server that speaks S3, and our keys of it in the environment."""
    with pytest.MonkeyPatch.context() as environment:
        for name, value in object_server.ENVIRONMENT.items():
            environment.setenv(name, value)
        yield from object_server.usual(tmp_path_factory.mktemp("object-store"))
