"""Who may see the restore tickets in a repository: the local socket, and whose grant names one."""

import pytest

from kit.storage_daemon import DIRECTOR
from kit.tiny_backup import new_repository
from strongroom.base.errors import (
    DamageError,
    ObjectMissingError,
    PeerRefusedError,
    RightError,
)
from strongroom.engine.repository.ticket_objects import fetch_ticket, store_ticket
from strongroom.net.identities.peer import Peer
from strongroom.storage.admission import Admission
from strongroom.storage.owner_list import NO_CLIENT
from strongroom.storage.settings import StorageLimits

SNAPSHOT = "cd" * 32


@pytest.fixture
def grants():
    return {}


@pytest.fixture
def served(make_daemon, grants):
    return make_daemon(
        read_grant=lambda text: {"client": "ab" * 16, "snapshot": SNAPSHOT} | grants[text],
        limits=StorageLimits(quota_bytes=1000),
    )


@pytest.fixture
def stored(served, grants):
    """Tickets for web1 and web2, as the director stores them."""
    local = served.local()
    new_repository(local)
    found = {name: store_ticket(local, b"keys for " + name.encode()) for name in ("web1", "web2")}
    for name, ticket in found.items():
        grants[name] = {"agent": name, "ticket": ticket.name}
    grants["none"] = {"agent": "web1"}
    local.close()
    return found


def listed(store):
    return [info.name for info in store.list("tickets")]


def test_an_agent_fetches_the_ticket_that_its_grant_names(served, stored):
    with_grant = served.agent("web1", grant="web1")
    assert fetch_ticket(with_grant, stored["web1"]) == b"keys for web1"
    assert listed(with_grant) == [stored["web1"].name]


def test_nobody_else_lists_reads_or_learns_of_a_ticket(served, stored):
    wanted = stored["web2"]
    strangers = [
        served.agent("web1", grant="web1"),
        served.agent("web1", grant="none"),
        # Its own tools have its certificate, but no grant.
        served.agent("web2"),
        served.agent("web3"),
        served.peer(Peer("ann", "operator", "1")),
        served.peer(DIRECTOR),
        served.local(view_as=served.client_id("web2").hex()),
    ]
    for store in strangers:
        assert wanted.name not in listed(store)
        for ask in (store.get, store.info):
            with pytest.raises(ObjectMissingError):
                ask("tickets", wanted.name)
        assert wanted.name not in store.unverified("tickets")


def test_a_grant_for_another_agent_opens_nothing(served, stored):
    with pytest.raises(RightError):
        listed(served.agent("web1", grant="web2"))


def test_only_the_local_socket_adds_and_removes_tickets(served, stored):
    wanted = stored["web1"]
    for store in (served.agent("web1"), served.peer(DIRECTOR)):
        with pytest.raises(RightError):
            store_ticket(store, b"made by somebody else")
        with pytest.raises(RightError):
            store.delete("tickets", wanted.name)
    local = served.local()
    local.delete("tickets", wanted.name)
    assert listed(local) == [stored["web2"].name]


def test_the_daemon_takes_a_ticket_under_no_name_but_its_digest(served, stored):
    with pytest.raises(DamageError):
        served.local().put("tickets", "ab" * 32, b"something else")


def test_tickets_count_to_nobodys_quota(served, stored):
    store_ticket(served.local(), bytes(1 << 20))
    used = served.server.serving.repository("").quotas.used()
    assert set(used) <= {NO_CLIENT}


def test_who_may_only_restore_needs_a_grant_and_adds_nothing(make_daemon, grants):
    daemon = make_daemon(
        read_grant=lambda text: {"client": "ab" * 16, "snapshot": SNAPSHOT} | grants[text],
        admission=Admission(restoring=frozenset(("web1",))),
    )
    local = daemon.local()
    new_repository(local)
    ticket = store_ticket(local, b"keys")
    local.close()
    grants["web1"] = {"agent": "web1", "ticket": ticket.name}
    grants["web2"] = {"agent": "web2", "ticket": ticket.name}
    granted = daemon.agent("web1", grant="web1")
    assert fetch_ticket(granted, ticket) == b"keys"
    with pytest.raises(RightError):
        granted.put("index", "ef" * 32, b"more")
    for store in (
        daemon.agent("web1"),
        daemon.agent("web1", grant="web2"),
        daemon.agent("web2", grant="web2"),
    ):
        with pytest.raises((RightError, PeerRefusedError)):
            list(store.list("config"))
