"""A mount outlives its connection: storage daemons end idle ones, and are restarted."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kit.storage_daemon import Daemon
from kit.storage_fixtures import daemon, make_daemon
from kit.tiny_backup import back_up, new_repository
from strongroom.base.errors import ConnectionLostError
from strongroom.engine.mount.repository import MountedRepository
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.snapshots import Snapshot

__all__ = ["daemon", "make_daemon"]
FILES = {b"one": b"first" * 1000, b"two": b"second" * 2000}


@pytest.fixture
def mounted(daemon: Daemon) -> Iterator[tuple[MountedRepository, Snapshot, Repository]]:
    """What an agent's mount reads from, over a connection as an agent has it."""
    appliance = new_repository(daemon.local())
    repository = Repository.open(daemon.agent("host"), appliance.key)
    appliance.close()
    snapshot = back_up(repository.for_client("host"), FILES)
    made = MountedRepository(repository, lambda found: found, 1 << 20)
    yield made, snapshot, repository
    made.close()
    repository.close()


def content(mounted: MountedRepository, snapshot: Snapshot, name: bytes) -> bytes:
    found = mounted.rows(snapshot).find(b"data/" + name)
    assert found is not None
    parts = found[0].parts
    return b"".join(bytes(mounted.chunk(snapshot.owner, block, slot)) for block, slot in parts)


def test_files_are_read_after_the_connection_ended(daemon, mounted):
    files, snapshot, repository = mounted
    assert content(files, snapshot, b"one") == FILES[b"one"]
    for _ in range(2):
        daemon.restart()
        with pytest.raises(ConnectionLostError):
            list(repository.store.list("snapshots"))
        assert content(files, snapshot, b"one") == FILES[b"one"]
        assert content(files, snapshot, b"two") == FILES[b"two"]


def test_names_are_listed_after_the_connection_ended(daemon, mounted):
    files, snapshot, repository = mounted
    daemon.restart()
    assert files.names().place(b"ids/" + snapshot.short_id.encode()) is not None
    daemon.restart()
    # A snapshot that was not open yet.
    again = repository.reopen()
    later = back_up(again.for_client("host"), {b"three": b"third" * 500})
    again.close()
    assert content(files, later, b"three") == b"third" * 500
