"""The handshake of the mode "off", with an attacker on the way or at the other end."""

import contextlib
import socket
import struct
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kit.connections import PATIENCE_SECONDS, Relay, accept_one, connected, listening
from strongroom.base import clock
from strongroom.base.errors import ConnectionLostError, PeerRefusedError
from strongroom.net.channels.connecting import Acceptor, connect
from strongroom.net.channels.off_handshake import (
    HEAD,
    HELLO,
    MAGIC,
    PROOF,
    REFUSAL,
    VERSION,
    shake_hands_as_client,
    shake_hands_as_server,
)
from strongroom.net.identities.identity import Identity

REFUSED = (PeerRefusedError, ConnectionLostError)


def server_side(house, connection, timeout_seconds=PATIENCE_SECONDS, roles=("agent",)):
    deadline = clock.elapsed_seconds() + timeout_seconds
    trust = house.storage.trust
    return shake_hands_as_server(
        connection, house.storage, lambda der: trust.judge(der, roles), deadline
    )


def client_side(house, connection, timeout_seconds=PATIENCE_SECONDS):
    deadline = clock.elapsed_seconds() + timeout_seconds
    trust = house.agent.trust
    return shake_hands_as_client(
        connection, house.agent, lambda der: trust.judge_server(der, "vault"), deadline
    )


def sizes_of_a_handshake(house):
    relay = Relay(lambda _, data: data)
    with connected(house, "off", relay):
        pass
    return {side: len(seen) for side, seen in relay.seen.items()}


def test_a_bit_flipped_anywhere_in_the_handshake_is_noticed(shared_house):
    """By the one side or the other; about sixty places of both directions."""
    smallest = sizes_of_a_handshake(shared_house)
    for from_client in (True, False):
        # A signature may turn out shorter by a few bytes, and the greeting follows.
        for place in range(0, smallest[from_client] - 60, 30):
            relay = Relay(flip(from_client, place))
            acceptor = Acceptor(shared_house.storage, lambda *_: True)
            with listening() as (listener, port), ThreadPoolExecutor(1) as pool:
                accepted = pool.submit(accept_one, acceptor, listener)
                with pytest.raises(REFUSED):
                    connect("127.0.0.1", relay(port), "vault", shared_house.agent, "off")
                if from_client:
                    with pytest.raises(REFUSED):
                        accepted.result(PATIENCE_SECONDS)
            acceptor.close()


def flip(from_client, place):
    passed = {True: 0, False: 0}

    def change(side, data):
        start = passed[side]
        passed[side] += len(data)
        if side == from_client and start <= place < passed[side]:
            changed = bytearray(data)
            changed[place - start] ^= 1
            return bytes(changed)
        return data

    return change


def test_what_a_client_said_once_cannot_be_said_again_by_another(shared_house):
    relay = Relay(lambda _, data: data)
    with connected(shared_house, "off", relay) as (ours, theirs):
        ours.send(b"once")
        assert theirs.receive_exactly(4) == b"once"
    one, other = socket.socketpair()
    with one, other:
        one.sendall(bytes(relay.seen[True]))
        with pytest.raises(PeerRefusedError, match="its key"):
            server_side(shared_house, other)


def test_a_client_is_not_fooled_by_its_own_words_sent_back(shared_house):
    one, other = socket.socketpair()
    with one, other:
        echo = threading.Thread(target=lambda: one.sendall(one.recv(1 << 16)))
        echo.start()
        with pytest.raises(PeerRefusedError, match="may not"):
            client_side(shared_house, other)
        echo.join()


def test_a_certificate_alone_opens_nothing(shared_house):
    """The thief has the certificate, which is not a secret, and his own key."""
    thief = Identity(
        shared_house.agent.folder,
        shared_house.agent.peer,
        shared_house.agent.certificate_pem,
        shared_house.operator.key_pem,
        shared_house.agent.authority_pem,
    )
    one, other = socket.socketpair()
    with one, other, ThreadPoolExecutor(1) as pool:
        deadline = clock.elapsed_seconds() + PATIENCE_SECONDS
        client = pool.submit(
            shake_hands_as_client,
            one,
            thief,
            lambda der: thief.trust.judge_server(der, "vault"),
            deadline,
        )
        with pytest.raises(PeerRefusedError, match="its key"):
            server_side(shared_house, other)
        client.result(PATIENCE_SECONDS)


def test_a_server_of_another_name_or_role_is_not_talked_to(shared_house):
    for identity, text in (
        (shared_house.director, "we meant to reach 'vault'"),
        (shared_house.operator, "may not do this"),
    ):
        acceptor = Acceptor(identity, lambda *_: True)
        with listening() as (listener, port), ThreadPoolExecutor(1) as pool:
            accepted = pool.submit(accept_one, acceptor, listener)
            with pytest.raises(PeerRefusedError, match=text):
                connect("127.0.0.1", port, "vault", shared_house.agent, "off")
            with pytest.raises(REFUSED):
                accepted.result(PATIENCE_SECONDS)


def test_a_refused_client_learns_why(shared_house):
    one, other = socket.socketpair()
    with one, other, ThreadPoolExecutor(1) as pool:
        client = pool.submit(client_side, shared_house, one)
        with pytest.raises(PeerRefusedError, match="may not"):
            server_side(shared_house, other, roles=("director",))
        with pytest.raises(PeerRefusedError, match="refuses us: agent 'web1' "):
            client.result(PATIENCE_SECONDS)


@pytest.mark.parametrize(
    "said",
    [
        HEAD.pack(MAGIC, VERSION, HELLO, 0xFFFF),
        HEAD.pack(MAGIC, VERSION + 1, HELLO, 100),
        HEAD.pack(MAGIC, VERSION, PROOF, 64),
        HEAD.pack(MAGIC, VERSION, 77, 64),
        HEAD.pack(MAGIC, VERSION, HELLO, 10) + bytes(10),
        HEAD.pack(MAGIC, VERSION, HELLO, 64) + bytes(64),
        HEAD.pack(MAGIC, VERSION, HELLO, 164) + bytes(164),
        HEAD.pack(MAGIC, VERSION, REFUSAL, 3) + b"\xff\x00\n",
        HEAD.pack(b"SSH-", VERSION, HELLO, 64),
    ],
)
def test_nonsense_is_refused_without_waiting_for_more(shared_house, said):
    one, other = socket.socketpair()
    with one, other:
        one.sendall(said)
        with pytest.raises(PeerRefusedError):
            server_side(shared_house, other)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=st.binary(max_size=300), kind=st.integers(0, 255), cut=st.integers(0, 20))
def test_no_words_make_it_fail_in_another_way(shared_house, body, kind, cut):
    one, other = socket.socketpair()
    with one, other:
        one.sendall(HEAD.pack(MAGIC, VERSION, kind, len(body)) + body[cut:])
        one.shutdown(socket.SHUT_WR)
        with pytest.raises(REFUSED):
            server_side(shared_house, other)


def test_whoever_trickles_is_not_waited_for(shared_house):
    """Every byte comes in time, and the whole would take an hour."""
    one, other = socket.socketpair()
    stopped = threading.Event()

    def trickle():
        for byte in struct.pack("<4sBBH", MAGIC, VERSION, HELLO, 8000) + bytes(8000):
            if stopped.wait(0.05):
                return
            with contextlib.suppress(OSError):
                one.sendall(bytes([byte]))

    with one, other:
        trickling = threading.Thread(target=trickle)
        trickling.start()
        begun = clock.elapsed_seconds()
        with pytest.raises(ConnectionLostError):
            server_side(shared_house, other, timeout_seconds=0.3)
        assert clock.elapsed_seconds() - begun < PATIENCE_SECONDS
        stopped.set()
        trickling.join()


def test_a_key_that_adds_nothing_is_refused(shared_house):
    """An all-zero X25519 key would make a secret that everybody knows."""

    def change(from_client, data):
        if from_client and data[:4] == MAGIC and data[5] == HELLO:
            return data[: HEAD.size + 32] + bytes(32) + data[HEAD.size + 64 :]
        return data

    relay = Relay(change)
    acceptor = Acceptor(shared_house.storage, lambda *_: True)
    with listening() as (listener, port), ThreadPoolExecutor(1) as pool:
        accepted = pool.submit(accept_one, acceptor, listener)
        with pytest.raises(REFUSED):
            connect("127.0.0.1", relay(port), "vault", shared_house.agent, "off")
        with pytest.raises(REFUSED):
            accepted.result(PATIENCE_SECONDS)
