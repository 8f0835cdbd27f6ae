"""A repository of few files, in memory: jobs make thousands of small objects durable."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kit import object_server
from kit.object_server import ObjectServer
from kit.tiny_backup import new_repository
from strongroom.engine.repository.repository import Repository
from strongroom.engine.stores.local import LocalStore
from strongroom.engine.stores.s3_store import S3Store
from strongroom.engine.stores.store import Store


@pytest.fixture
def repository(folder: Path) -> Iterator[Repository]:
    made = new_repository(LocalStore(str(folder / "repository")))
    yield made
    made.close()


@pytest.fixture(scope="session")
def object_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectServer]:
    """A server that speaks S3, and our keys of it in the environment."""
    with pytest.MonkeyPatch.context() as environment:
        for name, value in object_server.ENVIRONMENT.items():
            environment.setenv(name, value)
        yield from object_server.usual(tmp_path_factory.mktemp("object-store"))


@pytest.fixture(scope="session")
def open_bucket(object_store: ObjectServer) -> Callable[[Path], Store]:
    """The store of what would be a folder of that path."""
    return lambda place: S3Store(object_store.place(str(place).strip("/")))
