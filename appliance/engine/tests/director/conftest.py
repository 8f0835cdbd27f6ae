"""Catalogs for the tests of the director: each test of them runs on SQLite and on PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import URL

from kit.director_in_process import START_NS, TestDirector
from kit.memory_fixtures import tmp_path
from kit.postgresql_cluster import Cluster, new_cluster
from kit.virtual_time import VirtualTime
from strongroom.director.catalog.database import Catalog, open_catalog

__all__ = ["tmp_path"]


@pytest.fixture
def own_cluster() -> Iterator[Cluster]:
    """One that a test may stop."""
    with new_cluster() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def new_catalog_url(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], URL | str]:
    """Gives the address of an empty database at each call."""
    made = 0

    def new() -> URL | str:
        nonlocal made
        made += 1
        if request.param == "sqlite":
            return f"sqlite:///{tmp_path}/catalog{made}.sqlite"
        cluster: Cluster = request.getfixturevalue("cluster")
        return cluster.new_database()

    return new


@pytest.fixture
def catalog(new_catalog_url: Callable[[], URL | str]) -> Iterator[Catalog]:
    opened = open_catalog(new_catalog_url())
    yield opened
    opened.close()


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> VirtualTime:
    return VirtualTime(monkeypatch, START_NS)


@pytest.fixture
def director(tmp_path: Path, time: VirtualTime) -> TestDirector:
    """Not open yet: configure it first."""
    return TestDirector(tmp_path, time)
