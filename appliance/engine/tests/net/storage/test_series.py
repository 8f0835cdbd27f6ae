"""What a job does last is sent in one go, and stops at the first thing that is not done."""

import os
import time
from contextlib import closing

import pytest

from strongroom.base import clock
from strongroom.base.errors import LeaseError, ObjectMissingError, QuotaError
from strongroom.engine.content.digests import object_name
from strongroom.engine.repository.leases import EXPIRY_SECONDS, Holder, Lease
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.snapshots import Snapshot
from strongroom.engine.stores.capabilities import together
from strongroom.engine.stores.local import LocalStore
from strongroom.net.storage.client import MOST_IN_FLIGHT, Request
from strongroom.net.storage.protocol import FrameType, ObjectName
from strongroom.net.storage.store import RemoteStore

LEASE = "ab" * 16
MISSING = "cd" * 16


@pytest.fixture
def mine(daemon, appliance):
    """An object of web1."""
    return daemon.object_of("web1", b"mine")


@pytest.fixture
def repository(appliance, far):
    return Repository.open(far, appliance.key.put_key("web1"))


def _index_names(store: RemoteStore) -> list[str]:
    return [info.name for info in store.list("index")]


def _age(daemon, name: str, seconds: float) -> None:
    path = daemon.repository / "leases" / name
    status = path.stat()
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns - int(seconds * 1e9)))


def _do_together(far, *changes) -> int:
    """Do changes as one series; how many were done, where one failed."""
    taken = []

    def run():
        with together(far) as series:
            taken.append(series)
            for change in changes:
                change(series)

    with pytest.raises((ObjectMissingError, QuotaError)):
        run()
    return taken[0].done


def _put(store: RemoteStore, data: bytes) -> str:
    store.put("index", object_name(data), data)
    return object_name(data)


def test_nothing_is_done_after_what_failed(far, mine):
    far.put_new("leases", LEASE, mine)
    done = _do_together(
        far,
        lambda _: _put(far, mine + b"before"),
        lambda series: series.require("leases", MISSING),
        lambda _: _put(far, mine + b"after"),
        lambda _: far.sync(),
    )
    assert done == 1
    assert _index_names(far) == [object_name(mine + b"before")]


def test_a_failed_series_does_not_concern_what_comes_after_it(far, mine):
    far.put_new("leases", LEASE, mine)
    _do_together(
        far, lambda series: series.require("leases", MISSING), lambda _: _put(far, mine + b"within")
    )
    assert _index_names(far) == []
    name = _put(far, mine + b"after it")
    assert _index_names(far) == [name]


def test_nothing_is_sent_of_a_series_that_was_not_finished(far, mine):
    def stop(_):
        raise QuotaError("no room")

    far.put_new("leases", LEASE, mine)
    assert _do_together(far, lambda _: _put(far, mine + b"an index"), stop) == 0
    assert _index_names(far) == []


def test_a_lease_that_has_ended_is_not_renewed_by_the_daemon(daemon, far, mine):
    """Who sends on without waiting does not see when it was renewed."""
    far.put_new("leases", LEASE, mine)
    far.replace("leases", LEASE, mine)
    _age(daemon, LEASE, EXPIRY_SECONDS + 1)
    with pytest.raises(LeaseError, match="in time"):
        far.replace("leases", LEASE, mine)
    with pytest.raises(ObjectMissingError):
        far.replace("leases", LEASE, mine)


def test_a_job_is_concluded_and_its_lease_given_back(repository):
    with repository.lease("h", 1, "backup") as lease:
        made = repository.conclude(lambda: Snapshot(host="h"), lease)
        assert made.server_ns == lease.store_time_ns
        assert list(repository.store.list("leases")) == []
    assert [one.id for one in repository.snapshots()] == [made.id]


def test_nothing_is_concluded_after_the_lease_was_removed(daemon, repository):
    local = daemon.local()
    with repository.lease("h", 1, "backup") as lease:
        local.delete("leases", lease.name)
        with pytest.raises(LeaseError, match="committed"):
            repository.conclude(lambda: Snapshot(host="h"), lease)
    assert repository.snapshots() == []
    local.close()


def test_nothing_is_concluded_when_the_lease_was_not_renewed_in_time(daemon, repository):
    with repository.lease("h", 1, "backup") as lease:
        _age(daemon, lease.name, EXPIRY_SECONDS + 1)
        with pytest.raises(LeaseError, match="in time"):
            repository.conclude(lambda: Snapshot(host="h"), lease)
    assert repository.snapshots() == []


def test_a_snapshot_is_taken_back_when_the_lease_was_missed_after_it(repository):
    class Vanishing(Lease):
        """Is gone as soon as the snapshot is there."""

        def end_in(self, series):
            self._store.delete("leases", self.name)
            super().end_in(series)

    holder = Holder("h", 1, "backup", 0, ())
    owner = repository.writer.client_id
    lease = Vanishing(repository.store, repository.key, repository.cipher, owner, holder)
    with pytest.raises(LeaseError, match="taken back"):
        repository.conclude(lambda: Snapshot(host="h"), lease)
    assert repository.snapshots() == []


def test_a_lease_that_went_beside_the_daemon_is_not_renewed_into_being(
    daemon, far, repository, mine
):
    lease = repository.lease("web1", os.getpid(), "backup")
    far.info("leases", lease.name)
    (daemon.repository / "leases" / lease.name).unlink()
    with pytest.raises(ObjectMissingError):
        far.replace("leases", lease.name, mine)
    with pytest.raises(LeaseError):
        far.put_durable("snapshots", object_name(mine), mine)
    assert list(far.list("snapshots")) == []


def test_a_lease_is_renewed_while_the_last_of_a_job_is_brought_to_the_disk(tmp_path):
    class SlowDisk(LocalStore):
        is_slow = False

        def sync(self) -> None:
            if self.is_slow:
                path = tmp_path / "repository" / "leases" / lease.name
                before = path.stat().st_mtime_ns
                end = clock.elapsed_seconds() + 30
                while path.stat().st_mtime_ns == before:
                    assert clock.elapsed_seconds() < end, "no one renews the lease any more"
                    time.sleep(0.01)
            super().sync()

    store = SlowDisk(tmp_path / "repository")
    with closing(Repository.create(store, None, encryption="none").for_client("h")) as repository:
        holder = Holder("host", os.getpid(), "boot", 0, ())
        owner = repository.writer.client_id
        lease = Lease(store, repository.key, repository.cipher, owner, holder, renewal_seconds=0.05)
        lease.start_renewing()
        store.is_slow = True
        snapshot = repository.conclude(lambda: Snapshot(host="host", paths=(b"/x",)), lease)
        assert [info.name for info in store.list("snapshots")] == [snapshot.id]
        lease.end()


def test_a_series_is_no_longer_than_what_may_be_under_way(far):
    requests = [Request(FrameType.INFO, ObjectName("leases", LEASE))] * (MOST_IN_FLIGHT + 1)
    with pytest.raises(ValueError, match="at most"):
        far.client().request_series(requests)
