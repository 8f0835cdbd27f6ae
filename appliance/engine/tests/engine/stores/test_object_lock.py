"""Object lock on a real object store: what is locked, what is not, and which stores are refused."""

import time
from contextlib import closing

import pytest

from kit import object_server
from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.base.errors import ObjectMissingError, RightError, StoreError, UsageError
from strongroom.engine.content.digests import object_name
from strongroom.engine.repository.repository import Repository
from strongroom.engine.stores.local import LocalStore
from strongroom.engine.stores.object_lock import LOCK_MODES, LOCKED_KINDS, LockRule
from strongroom.engine.stores.s3_answers import document
from strongroom.engine.stores.s3_store import S3Store

DATA = b"content"
NAME = object_name(DATA)
LEASE = "ab" * 16
DAY = 86400
RULE = LockRule(DAY, "compliance")


def locked_store(object_store, prefix, rule=RULE, bucket="locked-tests"):
    store = S3Store(object_store.place(str(prefix).strip("/"), bucket))
    store.lock_by(rule)
    store.prepare()
    return store


@pytest.fixture
def store(object_store, tmp_path):
    with closing(locked_store(object_store, tmp_path)) as made:
        yield made


@pytest.mark.parametrize("mode", LOCK_MODES)
def test_a_bucket_that_init_makes_locks_objects(object_store, tmp_path, mode):
    before_ns = clock.now_ns()
    store = locked_store(object_store, tmp_path, LockRule(2 * DAY, mode), bucket=f"of-{mode}")
    store.prove()
    for kind in LOCKED_KINDS:
        store.put(kind, "config" if kind == "config" else NAME, DATA)
        (version,) = store.versions(kind)
        until_ns = store.locked_until(version)
        assert 0 <= until_ns + SECOND_NS - before_ns - 2 * DAY * SECOND_NS < 60 * SECOND_NS
        assert store.remove_versions([version]) == [version]
        with pytest.raises(StoreError):
            store.extend(version, until_ns - DAY * SECOND_NS)
        store.extend(version, until_ns + DAY * SECOND_NS)
        assert store.locked_until(version) == until_ns + DAY * SECOND_NS


def test_leases_tombstones_and_tickets_leave_nothing(store):
    store.put_new("leases", LEASE, b"first")
    for number in range(5):
        store.replace("leases", LEASE, b"renewed %d" % number)
    store.put("tombstones", NAME, DATA)
    store.put("tickets", NAME, DATA)
    assert all(store.locked_until(one) == 0 for one in store.versions("leases"))
    store.delete("leases", LEASE)
    store.delete("tombstones", NAME)
    store.delete("tickets", NAME)
    for kind in ("leases", "tombstones", "tickets"):
        assert list(store.versions(kind)) == []
    assert store.put_new("leases", LEASE, b"again")
    store.delete("leases", LEASE)


def test_a_name_that_somebody_took_again_keeps_its_version(store):
    store.put_new("leases", LEASE, b"first")
    marker = store._client.delete(store._key("leases", LEASE))  # noqa: SLF001
    other = store.reopen()
    assert other.put_new("leases", LEASE, b"theirs")
    store._remove_below(store._key("leases", LEASE), marker)  # noqa: SLF001
    assert other.get("leases", LEASE) == b"theirs"
    other.delete("leases", LEASE)
    other.close()


def test_a_deleted_object_is_gone_and_stays(store):
    store.put("packs", NAME, DATA)
    store.delete("packs", NAME)
    assert list(store.list("packs")) == []
    with pytest.raises(ObjectMissingError):
        store.get("packs", NAME)
    kept = [one for one in store.versions("packs") if not one.is_marker]
    assert store.get_version(kept[0], 2, 3) == DATA[2:5]
    assert store.put_new("packs", NAME, DATA)
    assert store.get("packs", NAME) == DATA


def test_a_store_without_object_lock_is_refused(object_store, tmp_path, monkeypatch):
    with pytest.raises(StoreError, match="versions"):
        locked_store(object_store, tmp_path, bucket="strongroom-tests")
    for server in object_server.rclone(tmp_path):
        store = S3Store(server.place())
        store.lock_by(LockRule(DAY, "governance"))
        with pytest.raises(StoreError):
            store.prepare()
    with pytest.raises(UsageError, match="cannot lock"):
        Repository.create(
            LocalStore(str(tmp_path / "x")), b"secret", lock=LockRule(DAY, "governance")
        )


def test_the_probe_leaves_nothing_for_long(store):
    store.prove()
    left = [one.key for one in store._versions_of(store._prefix)]  # noqa: SLF001
    assert len(left) <= 12
    assert all("/probe-" in key for key in left)


def test_a_probe_removes_nothing_of_others(object_store):
    with closing(S3Store(object_store.place("", "locked-root"))) as store:
        store.lock_by(RULE)
        store.prepare()
        of_another_process = f"probe-{'ab' * 12}"
        keys = ("probe-results.csv", "probe-1/report", of_another_process)
        for key in keys:
            store._client.put(key, DATA)  # noqa: SLF001
        store.prove()
        assert [store._client.get(key) for key in keys] == [DATA] * 3  # noqa: SLF001


def test_a_store_that_names_no_versions_has_left_all_of_a_key(store, monkeypatch):
    refusal = document(
        b"<R><Error><Key>a</Key><Code>AccessDenied</Code></Error>"
        b"<Error><Key>b</Key><VersionId>1</VersionId></Error></R>"
    )
    monkeypatch.setattr(store._client, "ask", lambda *_: refusal)  # noqa: SLF001
    found = store._client.delete_versions(  # noqa: SLF001
        [("a", "1"), ("a", "2"), ("b", "1"), ("b", "2")]
    )
    assert found == {("a", "1"), ("a", "2"), ("b", "1")}


def test_the_past_is_read_without_what_was_laid_over_it(object_store, store):
    store.put("packs", NAME, DATA)
    store.put("config", "config", b"the first")
    gone = object_name(b"gone")
    store.put("index", gone, b"gone")
    store.delete("index", gone)
    then_ns = max(one.stored_ns for kind in LOCKED_KINDS for one in store.versions(kind))
    time.sleep(1.1)
    store._client.put(store._key("packs", NAME), b"forged")  # noqa: SLF001
    store._client.put(store._key("config", "config"), b"forged")  # noqa: SLF001
    late = object_name(b"late")
    store.put("index", late, b"late")
    past = store.as_of(then_ns)
    assert past.get("packs", NAME) == DATA
    assert past.get("config", "config") == b"the first"
    store.delete("packs", NAME)
    for one in (store.as_of(then_ns), past.reopen()):
        assert one.get("packs", NAME, 2, 3) == DATA[2:5]
        assert [info.name for info in one.list("packs")] == [NAME]
        with pytest.raises(ObjectMissingError):
            one.get("index", late)
        with pytest.raises(RightError):
            one.put("index", late, b"late")
    assert late not in {info.name for info in past.list("index")}
    with pytest.raises(ObjectMissingError):
        store.as_of(then_ns - 3600 * SECOND_NS).get("packs", NAME)
