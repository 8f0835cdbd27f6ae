"""Peers with some certificate of the authority try what the configuration does not permit."""

import signal
import time

import pytest

from kit.storage_site import PATIENCE_SECONDS, StorageSite
from kit.tiny_backup import back_up, new_repository
from strongroom.base.errors import (
    ConnectionLostError,
    ObjectMissingError,
    PeerRefusedError,
    RightError,
)
from strongroom.net.identities.peer import Peer
from strongroom.net.storage.place import open_network, parse_place
from strongroom.storage.admission import Admission

FILES = {b"one": b"first" * 1000}
ANN = Peer("ann", "operator", "1")
BOSS = Peer("boss", "director", "1")
NAMED = Admission(
    clients=frozenset(("web1",)),
    directors=frozenset(("boss",)),
    operators={
        "ann": frozenset(("list", "read")),
        "eve": frozenset(("list",)),
        "mon": frozenset(("metrics",)),
    },
)


@pytest.fixture
def named(make_daemon):
    """A daemon whose configuration names its peers; its repository has a key and a snapshot."""
    daemon = make_daemon(admission=NAMED)
    appliance = new_repository(daemon.local())
    back_up(appliance, FILES, "web1")
    yield daemon
    appliance.close()


def test_the_wrapped_restore_key_is_for_the_director_and_local_maintenance_only(named):
    (key,) = named.local().list("keys")
    assert [info.name for info in named.peer(BOSS).list("keys")] == [key.name]
    assert named.peer(BOSS).get("keys", key.name) == named.local().get("keys", key.name)
    for store in (
        named.peer(ANN),
        named.agent("web1"),
        named.local(view_as=named.client_id("web1").hex()),
    ):
        assert list(store.list("keys")) == []
        for read in (store.get, store.info):
            with pytest.raises(ObjectMissingError):
                read("keys", key.name)
        assert list(store.list("packs"))


@pytest.mark.parametrize(
    "stranger",
    [
        Peer("bob", "operator", "1"),
        Peer("web2", "agent", "1"),
        Peer("boss", "agent", "1"),
        Peer("web1", "operator", "1"),
        Peer("other", "director", "1"),
        Peer("ann", "director", "1"),
        Peer("vault", "storage", "1"),
    ],
)
def test_whom_the_configuration_does_not_name_gets_nothing(named, stranger):
    with pytest.raises((RightError, PeerRefusedError)):
        list(named.peer(stranger).list("config"))


def test_operators_do_what_their_verbs_say(named):
    (pack, *_) = [info.name for info in named.local().list("packs")]
    assert named.peer(ANN).get("packs", pack)
    eve, mon = (named.peer(Peer(name, "operator", "1")) for name in ("eve", "mon"))
    assert list(eve.list("packs"))
    for forbidden in (
        lambda: eve.get("packs", pack),
        eve.metrics,
        lambda: list(mon.list("packs")),
        lambda: mon.get("packs", pack),
        lambda: named.peer(ANN).put("packs", pack, b"x"),
        lambda: named.peer(ANN).delete("packs", pack),
        lambda: named.peer(ANN).owners("packs"),
        lambda: named.peer(ANN).metrics(),
    ):
        with pytest.raises(RightError):
            forbidden()
    assert "strongroom_storage" in mon.metrics()


def test_who_is_not_named_any_more_is_disconnected(named):
    agent = named.agent("web1")
    assert list(agent.list("config"))
    named.server.set_admission(Admission(directors=frozenset(("boss",))))

    def list_for_a_while():
        for _ in range(1000):
            list(agent.list("config"))
            time.sleep(0.01)

    with pytest.raises(ConnectionLostError):
        list_for_a_while()
    with pytest.raises((RightError, PeerRefusedError)):
        list(named.agent("web1").list("config"))


def test_the_real_daemon_takes_the_names_from_its_configuration(folder):
    site = StorageSite(folder)
    try:
        place = parse_place(f"strongroom://127.0.0.1:{site.port}")
        identities = {
            "web1": site.identity("web1", "agent"),
            "ann": site.identity("ann", "operator"),
            "bob": site.identity("bob", "operator"),
        }

        def kinds(name, kind="config"):
            store = open_network(place, lambda: identities[name])
            try:
                return [info.name for info in store.list(kind)]
            finally:
                store.close()

        assert kinds("web1") == kinds("ann") == ["config"]
        assert kinds("ann", "keys") == []
        with pytest.raises(PeerRefusedError, match="Operators"):
            kinds("bob")
        text = site.configuration.read_text().replace('"*all*"', "web2")
        site.configuration.write_text(text.replace('"ann list read"', '"bob list"'))
        site.signal(signal.SIGHUP)
        until = time.monotonic() + PATIENCE_SECONDS
        while "read again" not in site.log():
            assert time.monotonic() < until
            time.sleep(0.05)
        assert kinds("bob") == ["config"]
        for name in ("web1", "ann"):
            with pytest.raises(PeerRefusedError, match="Clients"):
                kinds(name)
    finally:
        assert site.stop() == 0, site.log()
