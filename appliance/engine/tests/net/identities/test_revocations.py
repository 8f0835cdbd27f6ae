"""Revoked certificates: known soon, never forgotten, and their connections end."""

import os
import socket

import pytest

from kit.connections import PATIENCE_SECONDS, House, connected
from strongroom.base import clock
from strongroom.base.errors import ConnectionLostError, PeerRefusedError
from strongroom.net.channels.local_channel import admit_local, local_channel
from strongroom.net.identities.revocation_list import GREATEST_LIST_BYTES
from strongroom.net.identities.revocations import Revocations, install_list
from strongroom.net.identities.trust import roots_of


@pytest.mark.parametrize("mode", ["off", "tls"])
def test_an_open_connection_ends_within_five_seconds(house, mode, caplog):
    with connected(house, mode) as (ours, theirs):
        ours.send(b"still there")
        assert theirs.receive_exactly(11) == b"still there"
        begun = clock.elapsed_seconds()
        house.authority.revoke("web1")
        with pytest.raises(ConnectionLostError):
            ours.receive_exactly(1)
        assert clock.elapsed_seconds() - begun < 5
        with pytest.raises(ConnectionLostError):
            theirs.receive_exactly(1)
    assert house.agent.serial in caplog.text


def test_connections_of_others_go_on(house):
    with connected(house, "tls") as (ours, theirs):
        acceptor_sees = house.storage.trust.revocations
        other = house.identity("web2", "agent").peer
        house.authority.revoke("web2")
        end = clock.elapsed_seconds() + PATIENCE_SECONDS
        while not acceptor_sees.is_revoked(other) and clock.elapsed_seconds() < end:
            theirs.send(b"x")
            assert ours.receive_exactly(1) == b"x"
        assert acceptor_sees.is_revoked(other)


def lists(house):
    roots = roots_of(house.authority.certificate_pem)
    return Revocations(house.storage.revoked_path, roots), house.storage.revoked_path


def replace(path, data):
    with open(path + b".new", "wb") as file:
        file.write(data)
    os.rename(path + b".new", path)


def test_a_revocation_is_known_to_the_next_that_asks(house):
    revocations, _ = lists(house)
    for peer in (house.agent.peer, house.operator.peer):
        assert revocations.refusal(peer) == ""
        house.authority.revoke(peer.name)
        # The house writes the list where the storage daemon has it.
        assert "was revoked" in revocations.refusal(peer)


def test_a_bad_list_lets_nobody_new_in_and_what_is_revoked_is_not_forgotten(
    house, tmp_path, caplog
):
    first = house.authority.revoked_pem()
    house.authority.revoke("web1")
    revocations, path = lists(house)
    bad_one, good_one = house.agent.peer, house.operator.peer
    assert revocations.is_revoked(bad_one)
    assert revocations.refusal(good_one) == ""
    good = house.authority.revoked_pem()
    foreign = House(tmp_path / "foreign").authority.revoked_pem()
    cases = {
        "not a list": b"",
        "not signed": foreign,
        "older": first,
        "larger": good + bytes(GREATEST_LIST_BYTES),
        "begin and end": good[:-1],
        "base64 data": good.replace(b"\n", b"\n*", 1),
    }
    for text, bad in cases.items():
        replace(path, bad)
        assert revocations.is_revoked(bad_one)
        # Anyone who is connected stays; no one else is accepted.
        assert not revocations.is_revoked(good_one)
        assert text in revocations.refusal(good_one)
        assert text in revocations.fault
        assert text in caplog.text
    os.unlink(path)
    assert revocations.is_revoked(bad_one)
    assert "No such file" in revocations.refusal(good_one)
    replace(path, good)
    assert revocations.refusal(good_one) == ""
    assert revocations.is_revoked(bad_one)
    house.authority.revoke("ann")
    assert revocations.is_revoked(good_one)


@pytest.mark.parametrize("bad", [b"nonsense", b"-----BEGIN X509 CRL-----\nAAAA\n", None])
def test_a_daemon_that_starts_with_a_list_it_cannot_read_trusts_nobody(house, bad):
    if bad is None:
        os.unlink(house.storage.revoked_path)
    else:
        replace(house.storage.revoked_path, bad)
    with pytest.raises(PeerRefusedError, match="no new connections"):
        house.storage.trust.judge(house.agent.certificate_der, ["agent"])


def test_only_a_newer_list_of_our_authority_is_installed(house, tmp_path):
    roots = roots_of(house.authority.certificate_pem)
    path = os.fsencode(tmp_path / "list")
    old = house.authority.revoked_pem()
    assert install_list(path, old, roots)
    house.authority.revoke("web1")
    new = house.authority.revoked_pem()
    assert install_list(path, new, roots)
    for late in (old, new):
        assert not install_list(path, late, roots)
    with pytest.raises(PeerRefusedError):
        install_list(path, House(tmp_path / "foreign").authority.revoked_pem(), roots)
    assert (tmp_path / "list").read_bytes() == new


def test_the_list_reaches_the_identities_of_this_machine(house):
    house.authority.revoke("web1")
    for identity in (house.storage, house.director):
        with open(identity.revoked_path, "rb") as file:
            assert file.read() == house.authority.revoked_pem()


def test_a_local_peer_is_known_by_its_user(monkeypatch):
    one, other = socket.socketpair()
    with one, other:
        assert local_channel(one).peer.role == "local"
        assert admit_local(one).peer.role == "local"
        monkeypatch.setattr("strongroom.net.channels.local_channel.user_of", lambda _: 54321)
        with pytest.raises(PeerRefusedError, match="user 54321"):
            admit_local(one)
        assert admit_local(one, {54321}).peer.name == "54321"
