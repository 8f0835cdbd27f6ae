"""A repository of few files, in memory: jobs make thousands of small objects durable."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

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


@pytest.fixture
def cache(tmp_path: Path) -> bytes:
    """Where a cache is to be made."""
    return os.fsencode(tmp_path / "cache")


@pytest.fixture(scope="session")
def open_bucket(object_store: ObjectServer) -> Callable[[Path], Store]:
    """The store of what would be a folder of that path."""
    return lambda place: S3Store(object_store.place(str(place).strip("/")))
