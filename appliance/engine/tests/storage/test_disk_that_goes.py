"""The disk of a repository that is not mounted yet, is unplugged, and comes back."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from blake3 import blake3

from kit.daemon_process import wait_for
from kit.storage_daemon import Daemon
from kit.tiny_backup import PASSPHRASE
from strongroom.base.errors import ConnectionLostError, RepositoryNotFoundError, StrongroomError
from strongroom.engine.repository.repository import Repository
from strongroom.engine.stores.local import LocalStore

PACK = b"a pack of no one" * 8


@contextmanager
def serving(folder: Path) -> Iterator[Daemon]:
    daemon = Daemon(folder)
    try:
        yield daemon
    finally:
        daemon.stop()


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """A repository on a disk that is not mounted; its folder is there, and empty."""
    with serving(tmp_path) as daemon:
        Repository.create(daemon.local(), PASSPHRASE).close()
    unplugged = tmp_path / "disk"
    daemon.repository.rename(unplugged)
    daemon.repository.mkdir()
    return unplugged


def mount(disk: Path, daemon: Daemon) -> None:
    """Another file system is there then: other inodes."""
    daemon.repository.rmdir()
    shutil.copytree(disk, daemon.repository)


def unplug(daemon: Daemon, disk: Path) -> None:
    shutil.rmtree(disk)
    daemon.repository.rename(disk)
    daemon.repository.mkdir()


def opens(daemon: Daemon) -> bool:
    try:
        Repository.open(daemon.local(), PASSPHRASE).close()
    except (RepositoryNotFoundError, ConnectionLostError):
        return False
    return True


def test_a_daemon_that_starts_before_its_disk_writes_nothing_and_serves_it_later(disk, tmp_path):
    with serving(tmp_path) as daemon:
        for attempt in (
            lambda: Repository.open(daemon.local(), PASSPHRASE),
            lambda: list(daemon.local().list("packs")),
            lambda: daemon.local().put("keys", "0" * 64, b"x"),
            lambda: daemon.agent("web1").put("packs", "0" * 64, b"x"),
        ):
            with pytest.raises(StrongroomError):
                attempt()
        assert os.listdir(daemon.repository) == []
        mount(disk, daemon)
        wait_for(lambda: opens(daemon))
        before = daemon.server.serving.repository("").owner_list.usage()
        # Unplugged and plugged in again, with a connection that lasts.
        lasting = daemon.local()
        unplug(daemon, disk)
        wait_for(lambda: not opens(daemon))
        assert os.listdir(daemon.repository) == []
        mount(disk, daemon)
        wait_for(lambda: opens(daemon))
        assert daemon.server.serving.repository("").owner_list.usage() == before
        repository = Repository.open(daemon.local(), PASSPHRASE)
        name = blake3(PACK).hexdigest()
        repository.store.put("packs", name, PACK)
        repository.store.sync()
        assert (daemon.repository / "packs" / name[:2] / name).exists()
        # It has connected again.
        assert [one.name for one in lasting.list("packs")] == [name]


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("has_folder", [True, False], ids=["folder", "no-folder"])
def test_the_end_of_a_connection_writes_nothing_where_no_disk_is(disk, tmp_path, has_folder):
    with serving(tmp_path) as daemon:
        if not has_folder:
            daemon.repository.rmdir()
        local = daemon.local()
        with pytest.raises(RepositoryNotFoundError):
            list(local.list("packs"))
        local.close()
    assert [one.name for one in tmp_path.glob("repository/*")] == []
    assert daemon.repository.exists() == has_folder


def test_no_reserve_is_made_where_no_repository_is(tmp_path):
    store = LocalStore(os.fsencode(tmp_path))
    store.make_reserve()
    store.close()
    assert os.listdir(tmp_path) == []


def test_a_repository_is_made_in_an_empty_folder(tmp_path):
    with serving(tmp_path) as daemon:
        assert not opens(daemon)
        Repository.create(daemon.local(), PASSPHRASE).close()
        assert opens(daemon)
