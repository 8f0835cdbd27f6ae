"""Fixtures: storage daemons in folders in memory, which make many small objects durable."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kit.storage_daemon import Daemon
from kit.storage_site import StorageSite
from kit.tiny_backup import new_repository
from strongroom.engine.repository.repository import Repository
from strongroom.engine.stores.store import Store


@pytest.fixture
def make_daemon(folder: Path) -> Iterator[Callable[..., Daemon]]:
    made: list[Daemon] = []

    def make(**options: Any) -> Daemon:
        made.append(Daemon(folder, **options))
        return made[-1]

    yield make
    for daemon in made:
        daemon.stop()


@pytest.fixture
def daemon(make_daemon: Callable[..., Daemon]) -> Daemon:
    return make_daemon()


@pytest.fixture
def appliance(daemon: Daemon) -> Iterator[Repository]:
    """A repository made through the local socket, opened with the restore key."""
    repository = new_repository(daemon.local())
    yield repository
    repository.close()


@pytest.fixture
def open_as(daemon: Daemon, appliance: Repository) -> Iterator[Callable[[Store], Repository]]:
    """Opens the appliance's repository through an agent's store, with the put key of its name."""
    opened: list[Repository] = []

    def open_it(store: Store, client: str = "") -> Repository:
        key = appliance.key.put_key(client or daemon.name_of(store))
        opened.append(Repository.open(store, key))
        return opened[-1]

    yield open_it
    for repository in opened:
        repository.close()


@pytest.fixture
def site(folder: Path) -> Iterator[StorageSite]:
    made = StorageSite(folder)
    yield made
    assert made.stop() == 0, made.log()
