"""A lease keeps what its holder uses from being swept, for as long as its holder lives."""

import os
import time

import pytest

from strongroom.base.errors import KeyRightError, LeaseError
from strongroom.engine.repository.leases import (
    APPLIANCE,
    MOST_AGE_SECONDS,
    Holder,
    Lease,
    has_ended,
    list_leases,
)
from strongroom.engine.repository.snapshots import Snapshot
from strongroom.engine.repository.tombstones import write_tombstone

HALF_HOUR_NS = 1800 * 10**9


def mark(repository):
    """A tombstone of the client's packs."""
    owner = repository.writer.client_id
    return write_tombstone(repository.store, repository.key, owner, [bytes(32)], repository.cipher)


def age(repository, name, seconds):
    """Make the store believe that a lease was renewed that long ago."""
    path = os.path.join(repository.store.location, "leases", name)
    status = os.stat(path)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns - int(seconds * 1e9)))


def test_a_lease_is_listed_while_it_is_held(repository):
    with repository.lease("laptop", os.getpid(), "backup") as lease:
        (listed,) = list_leases(repository.store, repository.writer)
        assert listed.name == lease.name
        assert (listed.holder.host, listed.holder.process_id) == ("laptop", os.getpid())
        assert listed.holder.purpose == "backup"
        assert not has_ended(listed, lease.store_time_ns)
    assert list_leases(repository.store, repository.key) == []


def test_a_lease_names_the_tombstones_known_when_it_began(repository):
    first = mark(repository)
    with repository.lease("h", 1, "backup") as lease:
        mark(repository)
        (listed,) = list_leases(repository.store, repository.key)
        assert listed.holder.tombstones == (first,)
        lease.require()
        (listed,) = list_leases(repository.store, repository.key)
        assert listed.holder.tombstones == (first,)


def test_a_lease_that_was_not_renewed_has_ended_by_the_clock_of_the_store(repository):
    mine = os.getpid()
    with repository.lease("h", mine, "backup") as old, repository.lease("h", mine, "prune") as own:
        age(repository, old.name, 1700)
        own.require()
        ended = {
            item.name: has_ended(item, own.store_time_ns)
            for item in list_leases(repository.store, repository.key)
        }
        assert ended == {old.name: False, own.name: False}
        age(repository, old.name, 200)
        ended = {
            item.name: has_ended(item, own.store_time_ns)
            for item in list_leases(repository.store, repository.key)
        }
        assert ended == {old.name: True, own.name: False}


def leases_of(repository):
    return {item.name: item for item in list_leases(repository.store, repository.key)}


def test_a_lease_of_a_client_ends_at_most_seven_days_after_it_began(repository):
    with (
        repository.lease("h", os.getpid(), "backup") as lease,
        repository.for_all_clients().lease("h", os.getpid(), "check") as appliance,
    ):
        for age, ends in ((MOST_AGE_SECONDS - 60, False), (MOST_AGE_SECONDS + 60, True)):
            now = lease.store_time_ns + int(age * 1e9)
            found = leases_of(repository)
            renewed = found[lease.name]._replace(renewed_ns=now)
            assert has_ended(renewed, now) == ends
            assert not has_ended(found[appliance.name]._replace(renewed_ns=now), now)


def test_a_client_without_a_clock_keeps_its_lease(repository):
    holder = Holder("h", os.getpid(), "backup", 0, ())
    owner = repository.writer.client_id
    with Lease(repository.store, repository.key, repository.cipher, owner, holder) as lease:
        (listed,) = list_leases(repository.store, repository.key)
        assert not has_ended(listed, lease.store_time_ns)
        assert abs(listed.holder.started_ns - lease.store_time_ns) < 10**10


def test_whose_a_lease_is_everybody_sees_and_its_holder_only_its_client(repository):
    with (
        repository.for_client("web1").lease("one", 1, "backup") as first,
        repository.for_all_clients().lease("all", 1, "prune") as all_of_them,
    ):
        web1, web2 = (repository.key.put_key(name) for name in ("web1", "web2"))
        by_key = {
            key.name: {item.name: item for item in list_leases(repository.store, key)}
            for key in (web1, web2)
        }
        for found in by_key.values():
            assert found[first.name].owner == web1.client_id
            assert found[all_of_them.name].owner == APPLIANCE
            assert found[all_of_them.name].holder is None
        assert by_key["web1"][first.name].holder.host == "one"
        assert by_key["web2"][first.name].holder is None
        assert leases_of(repository)[all_of_them.name].holder.host == "all"


def test_a_put_key_takes_no_lease_of_another_client_or_of_the_appliance(repository):
    key = repository.key.put_key("web1")
    holder = Holder("h", 1, "backup", 0, ())
    for owner in (repository.key.client_id("web2"), APPLIANCE):
        with pytest.raises(KeyRightError):
            Lease(repository.store, key, repository.cipher, owner, holder)
    assert list(repository.store.list("leases")) == []


def test_nothing_is_committed_after_the_lease_was_removed(repository):
    with repository.lease("h", 1, "backup") as lease:
        repository.store.delete("leases", lease.name)
        with pytest.raises(LeaseError, match="removed"):
            repository.commit(Snapshot(host="h"), lease)
        with pytest.raises(LeaseError):
            lease.require()
    assert repository.snapshots() == []


def test_nothing_is_committed_when_the_lease_was_not_renewed_in_time(repository):
    holder = Holder("h", 1, "backup", 0, ())
    owner = repository.writer.client_id
    lease = Lease(
        repository.store, repository.key, repository.cipher, owner, holder, expiry_seconds=0.05
    )
    lease.require()
    time.sleep(0.1)
    with pytest.raises(LeaseError, match="in time"):
        repository.commit(Snapshot(host="h"), lease)
    lease.end()
    assert repository.snapshots() == []


def test_renewing_in_the_background_keeps_a_lease(repository):
    holder = Holder("h", 1, "backup", 0, ())
    lease = Lease(
        repository.store,
        repository.key,
        repository.cipher,
        repository.writer.client_id,
        holder,
        renewal_seconds=0.02,
        # On a busy machine a thread may wait for seconds.
        expiry_seconds=4,
    )
    lease.start_renewing()
    time.sleep(5)
    lease.require()
    lease.end()
    lease.end()
    assert list_leases(repository.store, repository.key) == []


def test_the_time_of_a_snapshot_is_that_of_the_store(repository):
    with repository.lease("h", 1, "backup") as lease:
        snapshot = repository.commit(Snapshot(host="h"), lease)
        assert snapshot.server_ns == lease.store_time_ns > 0


def test_a_lease_that_cannot_be_read_still_bars(repository):
    with repository.lease("h", 1, "backup") as lease:
        data = repository.store.get("leases", lease.name)
        for damaged in (b"", b"SRLS", data[:-1], b"X" + data[1:]):
            repository.store.replace("leases", lease.name, damaged)
            (listed,) = list_leases(repository.store, repository.key)
            assert listed.holder is None
            assert listed.renewed_ns > 0
