"""Who sees what, and who may do what."""

import os

import pytest

from kit.tiny_backup import THOROUGH, TinyBackup, back_up, read_back
from strongroom.base.errors import (
    LeaseError,
    ObjectMissingError,
    PeerRefusedError,
    RightError,
)
from strongroom.base.progress import NullProgress
from strongroom.engine.check.vouch import required_judge, vouch
from strongroom.engine.content.digests import object_name
from strongroom.engine.prune.prune import prune
from strongroom.engine.prune.sweep import SWEEP_LEASE
from strongroom.engine.repository.repository import Repository
from strongroom.engine.stores.store import KINDS
from strongroom.net.identities.peer import Peer
from strongroom.net.storage.protocol import PROTOCOL_VERSION, StorageHello
from strongroom.storage.settings import StorageLimits

NAME = "ab" * 32
FILES = {b"one": b"first" * 1000, b"two": b"second" * 2000}


def named(data):
    return object_name(data), data


def names(store, kind):
    return {info.name for info in store.list(kind)}


def test_an_agent_sees_what_it_stored_and_nothing_of_others(daemon, appliance, open_as):
    ours = back_up(open_as(daemon.agent("web1")), FILES)
    other = daemon.agent("web2")
    for kind in KINDS:
        assert names(other, kind) == ({"config"} if kind == "config" else set())
    assert names(daemon.agent("web1"), "snapshots") == {ours.id}
    assert len(names(daemon.agent("web1"), "packs")) == 2
    assert names(daemon.local(), "snapshots") == {ours.id}
    for kind in ("packs", "index", "snapshots", "keys"):
        for name in names(daemon.local(), kind):
            for read in (other.get, other.info):
                with pytest.raises(ObjectMissingError):
                    read(kind, name)
    assert read_back(appliance, ours.id) == FILES


def test_verified_or_not_an_agent_deduplicates_against_nothing_of_others(
    daemon, open_as, appliance
):
    back_up(open_as(daemon.agent("web1")), FILES)
    for _ in range(2):
        backup = TinyBackup(open_as(daemon.agent("web2")))
        backup.store(FILES)
        assert backup.new_chunks == 2
        assert read_back(appliance, backup.commit().id) == FILES
        vouch(appliance, required_judge(appliance.store), NullProgress())
        for name in names(daemon.agent("web2"), "snapshots"):
            daemon.local().delete("snapshots", name)
        prune(appliance, THOROUGH, NullProgress())


def test_an_agent_sees_what_the_appliance_stores_for_it_and_for_all(daemon, open_as, appliance):
    """Prune rewrites packs and index objects in the name of their client."""
    agent = open_as(daemon.agent("web1"))
    back_up(agent, FILES)
    gone = back_up(agent, {b"gone": os.urandom(50_000), b"kept": os.urandom(9)})
    kept = TinyBackup(agent)
    kept.store({b"kept": FILES[b"one"]})
    kept.commit()
    before = names(agent.store, "packs") | names(agent.store, "index")
    vouch(appliance, required_judge(appliance.store), NullProgress())
    daemon.local().delete("snapshots", gone.id)
    prune(appliance, THOROUGH, NullProgress())
    after = names(daemon.agent("web1"), "packs") | names(daemon.agent("web1"), "index")
    assert after - before, "nothing was rewritten"
    assert after == names(daemon.local(), "packs") | names(daemon.local(), "index")
    assert names(daemon.agent("web2"), "packs") == set()
    backup = TinyBackup(open_as(daemon.agent("web1")))
    backup.store(FILES)
    assert backup.new_chunks == 0
    backup.abandon()
    appliance.store.put("packs", *named(bytes(24) + b"shared by the appliance"))
    assert len(names(daemon.agent("web2"), "packs")) == 1


def test_an_agent_deletes_and_replaces_nothing_but_its_leases(daemon, open_as, appliance):
    snapshot = back_up(open_as(daemon.agent("web1")), FILES)
    agent = daemon.agent("web1")
    for kind in ("packs", "index", "snapshots", "keys"):
        for name in names(daemon.local(), kind):
            with pytest.raises(RightError):
                agent.delete(kind, name)
            with pytest.raises(RightError):
                agent.replace(kind, name, b"nothing")
    with pytest.raises(RightError):
        agent.replace("config", "config", b"mine")
    with pytest.raises(RightError):
        agent.put("tombstones", object_name(b"x"), b"x")
    with pytest.raises(RightError):
        agent.put("keys", object_name(b"x"), b"x")
    for forbidden in (
        agent.prepare,
        agent.metrics,
        lambda: agent.vouch("packs", (NAME,), sound=True),
    ):
        with pytest.raises(RightError):
            forbidden()
    assert read_back(appliance, snapshot.id) == FILES


def test_leases_are_their_holders(daemon, appliance):
    agent, other = daemon.agent("web1"), daemon.agent("web2")
    mine, renewed = (daemon.object_of("web1", text) for text in (b"mine", b"renewed"))
    theirs = daemon.object_of("web2", b"theirs")
    assert agent.put_new("leases", "1" * 32, mine)
    agent.replace("leases", "1" * 32, renewed)
    assert names(other, "leases") == set()
    # As if it were missing.
    with pytest.raises(ObjectMissingError):
        other.replace("leases", "1" * 32, theirs)
    other.delete("leases", "1" * 32)
    with pytest.raises(RightError):
        other.put_new("leases", SWEEP_LEASE, theirs)
    assert daemon.local().get("leases", "1" * 32) == renewed
    daemon.local().delete("leases", "1" * 32)
    # It does not come back by renewing it.
    with pytest.raises(ObjectMissingError):
        agent.replace("leases", "1" * 32, renewed)
    assert names(daemon.local(), "leases") == set()


def test_a_snapshot_is_taken_only_under_a_lease(daemon, appliance, open_as):
    snapshot = back_up(open_as(daemon.agent("web1")), FILES)
    data = daemon.local().get("snapshots", snapshot.id)
    with pytest.raises(LeaseError):
        daemon.agent("web2").put_durable("snapshots", snapshot.id, data)
    agent = daemon.agent("web2")
    agent.put_new("leases", "1" * 32, daemon.object_of("web2", b"mine"))
    # With a lease it gets further, but the snapshot stays another's.
    with pytest.raises(RightError):
        agent.put_durable("snapshots", snapshot.id, data)
    assert names(agent, "snapshots") == set()


def test_a_backup_whose_lease_was_removed_commits_nothing(daemon, appliance, open_as):
    backup = TinyBackup(open_as(daemon.agent("web1")))
    backup.store(FILES)
    for name in names(daemon.local(), "leases"):
        daemon.local().delete("leases", name)
    with pytest.raises(LeaseError):
        backup.commit()
    assert names(daemon.local(), "snapshots") == set()


def test_an_agent_takes_back_what_it_has_just_committed_and_nothing_older(daemon, open_as):
    repository = open_as(daemon.agent("web1"))
    old = back_up(repository, FILES)
    again = daemon.agent("web1")
    again.put_new("leases", "1" * 32, daemon.object_of("web1", b"mine"))
    with pytest.raises(RightError):
        again.delete("snapshots", old.id)
    repository.store.delete("snapshots", old.id)
    assert names(daemon.local(), "snapshots") == set()


def test_operators_read_and_directors_add(daemon, appliance, open_as):
    snapshot = back_up(open_as(daemon.agent("web1")), FILES)
    operator = daemon.peer(Peer("ann", "operator", "1"))
    assert read_back(Repository(operator, appliance.config, appliance.key), snapshot.id) == FILES
    with pytest.raises(RightError):
        operator.put("packs", object_name(b"x"), b"x")
    director = daemon.peer(Peer("boss", "director", "2"))
    back_up(Repository(director, appliance.config, appliance.key), {b"three": b"third"}, "web1")
    with pytest.raises(RightError):
        director.delete("snapshots", snapshot.id)
    assert "strongroom_storage_stored_bytes" in director.metrics()


def test_others_have_no_business_here(daemon, appliance):
    with pytest.raises(RightError):
        list(daemon.peer(Peer("vault2", "storage", "1")).list("packs"))


def test_a_view_shows_what_an_agent_sees_and_changes_nothing(daemon, appliance, open_as):
    snapshot = back_up(open_as(daemon.agent("web1")), FILES)
    view = daemon.local(view_as=daemon.client_id("web1").hex())
    assert read_back(Repository(view, appliance.config, appliance.key), snapshot.id) == FILES
    assert names(daemon.local(view_as=daemon.client_id("web2").hex()), "packs") == set()
    with pytest.raises(RightError):
        view.delete("snapshots", snapshot.id)
    hello = StorageHello(PROTOCOL_VERSION, view_as=daemon.client_id("web1").hex())
    with pytest.raises(RightError):
        list(daemon.peer(Peer("web2", "agent", "1"), hello).list("packs"))


def test_a_grant_shows_one_snapshot_of_another_to_be_read(make_daemon):
    from kit.tiny_backup import new_repository

    grants = {}

    def read_grant(text):
        if text not in grants:
            raise PeerRefusedError("no such statement")
        return grants[text]

    daemon = make_daemon(read_grant=read_grant)
    appliance = new_repository(daemon.local())
    agent = Repository.open(daemon.agent("web1"), appliance.key.put_key("web1"))
    wanted = back_up(agent, FILES)
    back_up(agent, {b"another": b"snapshot"})
    owner = daemon.client_id("web1").hex()
    grants["good"] = {"agent": "web2", "client": owner, "snapshot": wanted.id}
    granted = daemon.agent("web2", grant="good")
    assert names(granted, "snapshots") == {wanted.id}
    assert read_back(Repository(granted, appliance.config, appliance.key), wanted.id) == FILES
    with pytest.raises(RightError):
        granted.put("packs", object_name(b"x"), b"x")
    with pytest.raises(RightError):
        list(daemon.agent("web3", grant="good").list("packs"))
    with pytest.raises(PeerRefusedError):
        list(daemon.agent("web2", grant="made up").list("packs"))


def test_young_snapshots_stay_whoever_asks(make_daemon, monkeypatch):
    from kit.tiny_backup import new_repository
    from strongroom.base import clock

    daemon = make_daemon(limits=StorageLimits(minimum_retention_seconds=86400))
    appliance = new_repository(daemon.local())
    snapshot = back_up(Repository.open(daemon.agent("web1"), appliance.key.put_key("web1")), FILES)
    with pytest.raises(RightError, match="Minimum Retention"):
        daemon.local().delete("snapshots", snapshot.id)
    assert names(daemon.local(), "snapshots") == {snapshot.id}
    now_ns, since_boot_ns = clock.now_ns, clock.since_boot_ns
    monkeypatch.setattr(clock, "now_ns", lambda: now_ns() + 86401 * 10**9)
    monkeypatch.setattr(clock, "since_boot_ns", lambda: since_boot_ns() + 86401 * 10**9)
    daemon.local().delete("snapshots", snapshot.id)
    assert names(daemon.local(), "snapshots") == set()


def test_who_stored_what_is_known_after_a_restart(daemon, appliance, open_as):
    snapshot = back_up(open_as(daemon.agent("web1")), FILES)
    daemon.restart()
    assert names(daemon.agent("web1"), "snapshots") == {snapshot.id}
    assert names(daemon.agent("web2"), "snapshots") == set()


def test_after_a_lost_book_objects_are_still_their_clients(daemon, appliance, open_as):
    snapshot = back_up(open_as(daemon.agent("web1")), FILES)
    daemon.server.stop()
    for file in (daemon.repository / "provenance").iterdir():
        file.unlink()
    daemon.restart()
    for kind in ("packs", "index", "snapshots"):
        assert names(daemon.agent("web1"), kind) == names(daemon.local(), kind) != set()
        assert names(daemon.agent("web2"), kind) == set()
    assert daemon.local().unverified("packs") == names(daemon.local(), "packs")
    whole = Repository(daemon.local(), appliance.config, appliance.key)
    assert read_back(whole, snapshot.id) == FILES
    backup = TinyBackup(Repository.open(daemon.agent("web1"), appliance.key.put_key("web1")))
    backup.store(FILES)
    assert backup.new_chunks == 0
    assert backup.commit().id in names(daemon.agent("web1"), "snapshots")


def test_a_lease_of_the_same_name_as_anothers_is_not_told_apart_from_content(daemon, appliance):
    mine = daemon.object_of("web1", b"mine")
    daemon.agent("web1").put_new("leases", "1" * 32, mine)
    other = daemon.agent("web2")
    messages = set()
    for content in (mine, daemon.object_of("web2", b"theirs")):
        for put in (other.put_new, other.put):
            with pytest.raises(RightError) as refused:
                put("leases", "1" * 32, content)
            messages.add(str(refused.value))
    assert len(messages) == 1
    assert daemon.local().get("leases", "1" * 32) == mine
