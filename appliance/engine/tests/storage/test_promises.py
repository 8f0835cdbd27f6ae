"""Promises of the storage daemon that a peer could once get around."""

import os
import threading

import pytest

from kit.tiny_backup import PASSPHRASE, back_up, new_repository, read_back
from strongroom.base import clock
from strongroom.base.errors import ConnectionLostError, LeaseError, RightError, StrongroomError
from strongroom.base.progress import NullProgress
from strongroom.engine.prune.forget import ForgetOptions, forget
from strongroom.engine.repository.repository import Repository
from strongroom.engine.stores.local import LocalStore
from strongroom.net.identities.peer import Peer
from strongroom.net.storage.client import LARGEST_ANSWER_BYTES
from strongroom.net.storage.protocol import PROTOCOL_VERSION, StorageHello
from strongroom.storage.settings import StorageLimits

FILES = {b"one": b"first" * 1000, b"two": b"second" * 2000}
DAY = 86400


def names(store, kind):
    return {info.name for info in store.list(kind)}


def publish(store, kind, name, data):
    writer = store.writer(kind)
    writer.write(data)
    writer.commit(name)


def store_again(store, way, snapshot_id, data):
    if way == "publish":
        publish(store, "snapshots", snapshot_id, data)
    else:
        getattr(store, way)("snapshots", snapshot_id, data)


@pytest.mark.parametrize("way", ["put", "put_durable", "put_new", "publish"])
def test_an_agent_that_stores_a_snapshot_again_may_still_not_delete_it(
    daemon, appliance, open_as, way
):
    snapshot = back_up(open_as(daemon.agent("web1")), FILES)
    agent = daemon.agent("web1")
    data = agent.get("snapshots", snapshot.id)
    agent.put_new("leases", "1" * 32, daemon.object_of("web1", b"mine"))
    store_again(agent, way, snapshot.id, data)
    with pytest.raises(RightError):
        agent.delete("snapshots", snapshot.id)
    assert read_back(appliance, snapshot.id) == FILES


def test_a_lease_that_went_takes_no_snapshot_back_that_was_there_before(
    daemon, appliance, open_as, monkeypatch
):
    snapshot = back_up(open_as(daemon.agent("web1")), FILES)
    agent = daemon.agent("web1")
    data = agent.get("snapshots", snapshot.id)
    agent.put_new("leases", "1" * 32, daemon.object_of("web1", b"mine"))
    from strongroom.storage.uploads import Upload

    commit = Upload.commit

    def commit_while_the_lease_goes(self, store, name, mode, claim, *, is_digest):
        if self.kind == "snapshots":
            daemon.agent("web1").delete("leases", "1" * 32)
        return commit(self, store, name, mode, claim, is_digest=is_digest)

    monkeypatch.setattr(Upload, "commit", commit_while_the_lease_goes)
    with pytest.raises(LeaseError):
        agent.put("snapshots", snapshot.id, data)
    assert names(daemon.local(), "snapshots") == {snapshot.id}
    assert read_back(appliance, snapshot.id) == FILES


@pytest.mark.parametrize("way", ["put_durable", "replace", "publish"])
def test_maintenance_cannot_get_around_minimum_retention_by_storing_again(make_daemon, way):
    daemon = make_daemon(limits=StorageLimits(minimum_retention_seconds=DAY))
    repository = new_repository(daemon.local())
    snapshot = back_up(repository, FILES)
    repository.close()
    local = daemon.local()
    data = local.get("snapshots", snapshot.id)
    store_again(local, way, snapshot.id, data)
    with pytest.raises(RightError, match="Minimum Retention"):
        local.delete("snapshots", snapshot.id)
    assert names(local, "snapshots") == {snapshot.id}


def test_minimum_retention_holds_for_a_snapshot_that_came_beside_the_daemon(make_daemon):
    daemon = make_daemon(limits=StorageLimits(minimum_retention_seconds=DAY))
    new_repository(daemon.local()).close()
    beside = Repository.open(LocalStore(str(daemon.repository)), PASSPHRASE)
    snapshot = back_up(beside, FILES, "web1")
    beside.close()
    local = daemon.local()
    with pytest.raises(RightError, match="Minimum Retention"):
        local.delete("snapshots", snapshot.id)
    old = (clock.now_ns() - 2 * DAY * 10**9,) * 2
    os.utime(daemon.repository / "snapshots" / snapshot.id, ns=old)
    local.delete("snapshots", snapshot.id)
    assert names(local, "snapshots") == set()


def test_what_the_daemon_keeps_stops_no_rule_from_removing_the_rest(make_daemon):
    daemon = make_daemon(limits=StorageLimits(minimum_retention_seconds=DAY))
    new_repository(daemon.local()).close()
    beside = Repository.open(LocalStore(str(daemon.repository)), PASSPHRASE)
    old, young = (back_up(beside, {b"f": b"%d" % n}, "web1") for n in range(2))
    beside.close()
    long_ago = (clock.now_ns() - 2 * DAY * 10**9,) * 2
    os.utime(daemon.repository / "snapshots" / old.id, ns=long_ago)
    repository = Repository.open(daemon.local(), PASSPHRASE)
    options = ForgetOptions(snapshot_ids=(young.id, old.id))
    report = forget(repository, repository.snapshots(), options, NullProgress())
    assert names(repository.store, "snapshots") == {young.id}
    assert (report.removed_count, len(report.refused)) == (1, 1)
    repository.close()


def test_a_raised_minimum_retention_holds_for_connections_that_are_open(make_daemon):
    daemon = make_daemon()
    repository = new_repository(daemon.local())
    snapshot = back_up(repository, FILES)
    local = daemon.local()
    assert names(local, "snapshots") == {snapshot.id}
    daemon.server.set_limits(StorageLimits(minimum_retention_seconds=DAY))
    with pytest.raises(RightError, match="Minimum Retention"):
        local.delete("snapshots", snapshot.id)
    repository.close()


def test_the_daemon_lives_on_when_no_thread_can_be_started(daemon, appliance, monkeypatch):
    start = threading.Thread.start
    failures = [RuntimeError("can't start new thread")]

    def fail_once(thread):
        if failures:
            raise failures.pop()
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", fail_once)
    with pytest.raises(ConnectionLostError):
        daemon.agent("web1").info("config", "config")
    assert not failures
    assert names(daemon.agent("web1"), "config") == {"config"}
    assert b"handshakes 0" in daemon.server.serving.metrics_text()


def test_no_object_is_taken_that_nobody_could_read_whole():
    assert StorageLimits().object_bytes <= LARGEST_ANSWER_BYTES


@pytest.mark.parametrize("evil", ["x\n2026-01-01 everything is OK", "x\x1b[2J\r"])
def test_no_peer_writes_lines_of_its_own_into_the_log(daemon, appliance, caplog, evil):
    with pytest.raises(RightError):
        daemon.agent("web1").delete("packs", evil)
    peer = Peer("web1", "agent", "ab")
    with pytest.raises(StrongroomError):
        daemon.peer(peer, StorageHello(PROTOCOL_VERSION, repository=evil)).info("config", "config")
    said = [record.getMessage() for record in caplog.records]
    assert any("x\\" in text for text in said)
    assert all(text.isprintable() for text in said)
