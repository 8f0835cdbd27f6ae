"""Somebody between two peers takes away what protects their connection."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from kit.connections import PATIENCE_SECONDS, House, Relay, accept_one, listening
from strongroom.base.errors import ConnectionLostError, PeerRefusedError
from strongroom.net.channels import ktls
from strongroom.net.channels.connecting import Acceptor, connect

REFUSED = (PeerRefusedError, ConnectionLostError)


@pytest.fixture
def kernel_does_tls(monkeypatch):
    """Whatever this kernel can: each side that asks for kTLS believes that it has it."""
    proof = ktls.KtlsProof(send=True, receive=True, counted=True, cipher="AES-128-GCM")
    monkeypatch.setattr(ktls, "prove", lambda *_: proof)


def without_the_preface():
    """Loses the first byte that a client says."""
    said = []

    def change(from_client, data):
        if from_client and not said:
            said.append(data)
            assert data[:1] == b"K"
            return data[1:]
        return data

    return Relay(change)


def outcome(house, mode, allow, between=None, server=None):
    """What each side says of a connection: its mode, or its error."""
    acceptor = Acceptor(server or house.storage, allow)
    found = []
    with listening() as (listener, port), ThreadPoolExecutor(1) as pool:
        accepted = pool.submit(accept_one, acceptor, listener)
        dialled = port if between is None else between(port)
        for step in (
            lambda: connect("127.0.0.1", dialled, "vault", house.agent, mode),
            lambda: accepted.result(PATIENCE_SECONDS),
        ):
            try:
                channel = step()
                found.append(channel.security.mode)
                channel.close()
            except REFUSED as error:
                found.append(type(error))
    acceptor.close()
    return found


@pytest.mark.usefixtures("kernel_does_tls")
def test_a_client_that_requires_ktls_takes_no_connection_that_was_made_to_do_without(shared_house):
    assert outcome(shared_house, "ktls-required", lambda *_: True) == ["ktls", "ktls"]
    ours, _ = outcome(shared_house, "ktls-required", lambda *_: True, without_the_preface())
    assert ours is PeerRefusedError


@pytest.mark.usefixtures("kernel_does_tls")
def test_a_daemon_that_requires_ktls_takes_no_connection_that_was_made_to_do_without(shared_house):
    asked = []

    def only_ktls(_, mode):
        asked.append(mode)
        return mode == "ktls"

    assert outcome(shared_house, "ktls", only_ktls) == ["ktls", "ktls"]
    ours, theirs = outcome(shared_house, "ktls", only_ktls, without_the_preface())
    assert (ours, theirs) == (PeerRefusedError, PeerRefusedError)
    assert asked == ["ktls", "tls"]


@pytest.mark.usefixtures("kernel_does_tls")
@pytest.mark.parametrize("mode", ["tls", "ktls", "ktls-required", "off"])
def test_whoever_ends_the_protection_on_the_way_is_not_taken_for_the_daemon(
    shared_house, tmp_path, mode
):
    stranger = House(tmp_path)
    for pretends in (stranger.storage, shared_house.agent):
        ours, _ = outcome(shared_house, mode, lambda *_: True, server=pretends)
        assert ours in REFUSED
