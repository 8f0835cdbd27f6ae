"""What is asked ahead is answered as if it were asked at once, and never hides a later change."""

import pytest

from kit.tiny_backup import new_repository
from strongroom.base.errors import ObjectMissingError
from strongroom.engine.content.digests import object_name
from strongroom.net.storage import read_ahead
from strongroom.net.storage.protocol import FrameType
from strongroom.net.storage.store import RemoteStore

LEASE = "ab" * 16


@pytest.fixture
def daemon(make_daemon):
    made = make_daemon()
    new_repository(made.local()).close()
    return made


@pytest.fixture
def mine(daemon):
    """An object of web1."""
    return daemon.object_of("web1", b"mine")


def _requests(store: RemoteStore) -> dict[str, int]:
    text = store.metrics()
    lines = [line for line in text.splitlines() if line.startswith("strongroom_storage_requests")]
    return {line.split('"')[1]: int(float(line.split()[-1])) for line in lines}


def _names(store: RemoteStore, kind: str) -> list[str]:
    return [info.name for info in store.list(kind)]


def test_the_listings_of_a_job_are_asked_with_its_lease(daemon, far, mine):
    watcher = daemon.local()
    before = _requests(watcher)["list"]
    far.put_new("leases", LEASE, mine)
    assert _names(far, "tombstones") == []
    assert far.info("leases", LEASE).size_bytes == len(mine)
    asked = ["tombstones", "index", "tombstones", "packs"]
    assert {kind: _names(far, kind) for kind in asked} == {kind: [] for kind in asked}
    # Waits for everything before it on this connection.
    far.info("leases", LEASE)
    asked = [question.type for question in read_ahead.after_lease(LEASE)]
    assert _requests(watcher)["list"] - before == asked.count(FrameType.LIST)
    watcher.close()


def test_a_change_of_our_own_is_seen_by_the_next_listing(far, mine):
    far.put_new("leases", LEASE, mine)
    name = object_name(mine)
    far.put("index", name, mine)
    assert _names(far, "index") == [name]


def test_a_streamed_object_is_seen_by_the_next_listing(far, mine):
    far.put_new("leases", LEASE, mine)
    writer = far.writer("packs")
    writer.write(mine)
    writer.commit(object_name(mine))
    assert _names(far, "packs") == [object_name(mine)]


def test_answers_asked_ahead_do_not_overtake_a_later_question(daemon, far, mine):
    """After a question that was not foreseen nothing older is believed."""
    far.put_new("leases", LEASE, mine)
    local = daemon.local()
    with pytest.raises(ObjectMissingError):
        far.info("index", "00" * 32)
    name = object_name(mine)
    local.put("index", name, mine)
    assert _names(far, "index") == [name]
    local.close()


def test_old_answers_are_asked_for_again(daemon, far, monkeypatch, mine):
    monkeypatch.setattr(read_ahead, "LONGEST_SECONDS", 0.0)
    far.put_new("leases", LEASE, mine)
    local = daemon.local()
    name = object_name(mine)
    local.put("index", name, mine)
    assert _names(far, "index") == [name]
    local.close()


def test_a_lease_removed_before_a_commit_is_missed(daemon, far, mine):
    far.put_new("leases", LEASE, mine)
    local = daemon.local()
    local.delete("leases", LEASE)
    far.sync()
    with pytest.raises(ObjectMissingError):
        far.info("leases", LEASE)
    local.close()


def test_a_lease_removed_after_a_look_is_missed_by_the_next(daemon, far, mine):
    far.put_new("leases", LEASE, mine)
    far.sync()
    assert far.info("leases", LEASE).size_bytes == len(mine)
    local = daemon.local()
    local.delete("leases", LEASE)
    with pytest.raises(ObjectMissingError):
        far.info("leases", LEASE)
    local.close()


def test_a_reopened_store_connects_by_itself(far, mine):
    far.put_new("leases", LEASE, mine)
    again = far.reopen()
    assert _names(again, "leases") == [LEASE]
    again.close()
