"""Who gets a channel over TLS, and who does not."""

import contextlib
import socket
import ssl
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from kit.connections import PATIENCE_SECONDS, House, accept_one, connected, listening
from strongroom.base import clock
from strongroom.base.errors import ConnectionLostError, PeerRefusedError, UsageError
from strongroom.net.channels import ktls
from strongroom.net.channels.connecting import Acceptor, connect
from strongroom.net.channels.tls_contexts import TLS_1_3_SUITES, client_context, server_context

REFUSED = (PeerRefusedError, ConnectionLostError)
MODES = ["off", "tls"]


def attempt(server, client, mode="tls", name="vault", allow=lambda *_: True, **options):
    """Dial once; the error of each side, None where there was none."""
    acceptor = Acceptor(server, allow, **options)
    outcome = []
    with listening() as (listener, port), ThreadPoolExecutor(1) as pool:
        accepted = pool.submit(accept_one, acceptor, listener)
        for step in (
            lambda: connect("127.0.0.1", port, name, client, mode),
            lambda: accepted.result(PATIENCE_SECONDS),
        ):
            try:
                step().close()
                outcome.append(None)
            except REFUSED as error:
                outcome.append(error)
    acceptor.close()
    return outcome


@pytest.mark.parametrize("mode", MODES)
def test_a_client_of_another_authority_is_refused(shared_house, tmp_path, mode):
    stranger = House(tmp_path).agent
    ours, theirs = attempt(shared_house.storage, stranger, mode)
    assert isinstance(ours, REFUSED)
    assert isinstance(theirs, PeerRefusedError)


@pytest.mark.parametrize("mode", MODES)
def test_a_client_that_trusts_us_without_being_ours_is_refused(shared_house, tmp_path, mode):
    stranger = House(tmp_path)
    (tmp_path / "web1" / "authority.pem").write_bytes(shared_house.authority.certificate_pem)
    identity = type(stranger.agent).load(str(tmp_path / "web1"))
    _, theirs = attempt(shared_house.storage, identity, mode)
    assert isinstance(theirs, PeerRefusedError)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("role", ["agent", "operator"])
def test_only_certificates_of_servers_answer(shared_house, role, mode):
    server = getattr(shared_house, role)
    ours, _ = attempt(server, shared_house.director, mode, name=server.name)
    assert isinstance(ours, PeerRefusedError)


@pytest.mark.parametrize("mode", MODES)
def test_an_agent_may_answer_where_one_is_dialled(shared_house, mode):
    acceptor = Acceptor(shared_house.agent, lambda *_: True, roles=("director",))
    with listening() as (listener, port), ThreadPoolExecutor(1) as pool:
        accepted = pool.submit(accept_one, acceptor, listener)
        channel = connect("127.0.0.1", port, "web1", shared_house.director, mode, roles=("agent",))
        assert accepted.result(PATIENCE_SECONDS).peer.role == "director"
        channel.close()
    acceptor.close()


@pytest.mark.parametrize("mode", MODES)
def test_a_server_takes_only_the_roles_it_is_for(shared_house, mode):
    ours, theirs = attempt(shared_house.storage, shared_house.operator, mode, roles=("agent",))
    assert isinstance(theirs, PeerRefusedError)
    assert "certificate of agent" in str(ours)


@pytest.mark.parametrize("mode", MODES)
def test_a_server_must_be_the_one_that_was_meant(house, mode):
    storage = house.identity("sd2", "storage", "127.0.0.1", "backup.example.org")
    for name in ("sd2", "127.0.0.1", "Backup.Example.Org"):
        assert attempt(storage, house.agent, mode, name=name) == [None, None]
    ours, _ = attempt(storage, house.agent, mode, name="vault")
    assert "'vault', but who answers is storage 'sd2'" in str(ours)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("days", [-400, 400])
def test_a_certificate_is_good_in_its_time_only(house, wall_clock, mode, days):
    wall_clock(days=days)
    agent = house.identity("late", "agent")
    wall_clock()
    ours, theirs = attempt(house.storage, agent, mode)
    assert isinstance(ours, REFUSED)
    assert isinstance(theirs, PeerRefusedError)


@pytest.mark.parametrize("days", [-7, 7])
@pytest.mark.parametrize("mode", MODES)
def test_a_clock_that_is_a_week_wrong_hinders_nobody(house, wall_clock, mode, days):
    """Whichever side's; OpenSSL's clock cannot be moved, so the authority's is."""
    wall_clock(days=days)
    agent = house.identity("drifting", "agent")
    wall_clock()
    assert attempt(house.storage, agent, mode) == [None, None]


@pytest.mark.parametrize("mode", MODES)
def test_a_revoked_client_and_a_revoked_server_are_refused(house, mode):
    house.authority.revoke("web1")
    ours, theirs = attempt(house.storage, house.agent, mode)
    assert "was revoked" in str(theirs)
    assert "was revoked" in str(ours)
    house.authority.revoke("vault")
    ours, _ = attempt(house.storage, house.director, mode)
    assert "was revoked" in str(ours)


@pytest.mark.parametrize("mode", MODES)
def test_the_daemon_decides_who_may_use_which_mode(shared_house, mode):
    asked = []

    def allow(peer, used):
        asked.append((peer.name, used))
        return used != mode

    ours, theirs = attempt(shared_house.storage, shared_house.agent, mode, allow=allow)
    assert asked == [("web1", mode)]
    assert f"TLS mode '{mode}'" in str(ours)
    assert isinstance(theirs, PeerRefusedError)


def test_the_cipher_suites_are_those_that_were_set(shared_house):
    for suite in TLS_1_3_SUITES[:3]:
        with connected(shared_house, "tls", cipher_suites=suite) as (ours, theirs):
            assert ours.security.cipher == theirs.security.cipher == suite
    context = server_context(
        shared_house.storage, "TLS_AES_128_GCM_SHA256 : TLS_CHACHA20_POLY1305_SHA256"
    )
    names = [one["name"] for one in context.get_ciphers() if one["protocol"] == "TLSv1.3"]
    assert names == ["TLS_AES_128_GCM_SHA256", "TLS_CHACHA20_POLY1305_SHA256"]


@pytest.mark.parametrize("suites", ["AES128-SHA", "TLS_AES_128_GCM_SHA256:NULL", ":", "ALL"])
def test_unknown_cipher_suites_are_refused_before_anything_is_dialled(shared_house, suites):
    with pytest.raises(UsageError, match=r"TLS 1\.3 cipher suites"):
        client_context(shared_house.agent, suites)


def test_sides_without_a_common_suite_do_not_connect(shared_house):
    acceptor = Acceptor(
        shared_house.storage, lambda *_: True, cipher_suites="TLS_CHACHA20_POLY1305_SHA256"
    )
    with listening() as (listener, port), ThreadPoolExecutor(1) as pool:
        accepted = pool.submit(accept_one, acceptor, listener)
        with pytest.raises(PeerRefusedError, match="TLS failed"):
            connect("127.0.0.1", port, "vault", shared_house.agent, "tls", "TLS_AES_128_GCM_SHA256")
        with pytest.raises(REFUSED):
            accepted.result(PATIENCE_SECONDS)


@pytest.mark.skipif(ktls.is_available(), reason="this kernel does TLS; see tests/vm")
def test_required_ktls_is_refused_where_there_is_none(shared_house):
    ours, _ = attempt(shared_house.storage, shared_house.agent, "ktls-required")
    assert isinstance(ours, PeerRefusedError)
    assert "kTLS is required" in str(ours)


@pytest.mark.parametrize("what", ["no certificate", "TLS 1.2"])
def test_a_foreign_tls_client_is_refused(shared_house, what):
    context = client_context(shared_house.agent, check_hostname=False)
    if what == "no certificate":
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    else:
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_2
    acceptor = Acceptor(shared_house.storage, lambda *_: True)
    with listening() as (listener, port), ThreadPoolExecutor(1) as pool:
        accepted = pool.submit(accept_one, acceptor, listener)
        with (
            socket.create_connection(("127.0.0.1", port)) as connection,
            pytest.raises((ssl.SSLError, ConnectionError)),
            context.wrap_socket(connection) as protected,
        ):
            protected.recv(1)
        with pytest.raises(PeerRefusedError, match="TLS failed"):
            accepted.result(PATIENCE_SECONDS)


@pytest.mark.parametrize(
    "said",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\xff\xff" + bytes(1000),
        b"\x16" + bytes(range(256)) * 4,
        b"K" * 1000,
        b"K\x16\x03\x01\x00\x01\x01",
    ],
    ids=["http", "large record", "noise", "many wishes", "short hello"],
)
def test_nonsense_is_refused(shared_house, said):
    with one_guest(shared_house, PATIENCE_SECONDS) as (guest, accepted):
        # It may have been thrown out before it has finished.
        with contextlib.suppress(OSError):
            guest.sendall(said)
            guest.shutdown(socket.SHUT_WR)
        with pytest.raises(REFUSED):
            accepted.result(PATIENCE_SECONDS)


def test_whoever_says_nothing_or_trickles_is_not_waited_for(shared_house):
    begun = clock.elapsed_seconds()
    for first in (b"", b"S", b"\x16", b"K"):
        with one_guest(shared_house, 0.3) as (guest, accepted):
            guest.sendall(first)
            stopped = threading.Event()

            def trickle(guest=guest, stopped=stopped):
                # The length of a ClientHello that never ends; a byte at a time.
                for byte in b"\x16\x03\x01\x40\x00\x01\x00\x3f\xf0" + bytes(1000):
                    if stopped.wait(0.05):
                        return
                    with contextlib.suppress(OSError):
                        guest.sendall(bytes([byte]))

            trickling = threading.Thread(target=trickle if first else lambda: None)
            trickling.start()
            with pytest.raises(REFUSED):
                accepted.result(PATIENCE_SECONDS)
            stopped.set()
            trickling.join()
    assert clock.elapsed_seconds() - begun < PATIENCE_SECONDS


class one_guest:  # noqa: N801 - it is used as a function
    """A bare socket connected to an acceptor, and what becomes of the connection there."""

    def __init__(self, house, timeout_seconds):
        self._acceptor = Acceptor(
            house.storage, lambda *_: True, handshake_timeout_seconds=timeout_seconds
        )

    def __enter__(self):
        self._pool = ThreadPoolExecutor(1)
        self._listener = socket.create_server(("127.0.0.1", 0))
        accepted = self._pool.submit(accept_one, self._acceptor, self._listener)
        self._guest = socket.create_connection(self._listener.getsockname())
        return self._guest, accepted

    def __exit__(self, *_):
        self._guest.close()
        self._listener.close()
        self._pool.shutdown()
        self._acceptor.close()


def test_nobody_there_and_somebody_silent_are_lost_connections(shared_house, monkeypatch):
    monkeypatch.setattr("strongroom.net.channels.connecting._CONNECT_SECONDS", 0.2)
    with listening() as (listener, port):
        with pytest.raises(ConnectionLostError):
            connect("127.0.0.1", port, "vault", shared_house.agent)
        listener.close()
        with pytest.raises(ConnectionLostError, match=f"daemon at 127.0.0.1 port {port}"):
            connect("127.0.0.1", port, "vault", shared_house.agent)
    with pytest.raises(ConnectionLostError, match="cannot reach"):
        connect("no such host.invalid", 1, "vault", shared_house.agent)


def test_sessions_are_not_resumed(shared_house):
    """A resumed session would not show its certificate again."""
    context = client_context(shared_house.agent, check_hostname=False)
    acceptor = Acceptor(shared_house.storage, lambda *_: True)
    with listening() as (listener, port), ThreadPoolExecutor(1) as pool:
        accepted = pool.submit(accept_one, acceptor, listener)
        with (
            socket.create_connection(("127.0.0.1", port)) as connection,
            context.wrap_socket(connection) as protected,
        ):
            assert protected.recv(100)[:4] == b"SRHI"
            assert protected.session is None or not protected.session.has_ticket
        accepted.result(PATIENCE_SECONDS).close()
    acceptor.close()


def test_a_renewed_identity_is_shown_to_new_connections(house):
    acceptor = Acceptor(house.storage, lambda *_: True)
    with listening() as (listener, port), ThreadPoolExecutor(1) as pool:
        for identity in (house.storage, house.identity("vault", "storage")):
            acceptor.replace_identity(identity)
            accepted = pool.submit(accept_one, acceptor, listener)
            channel = connect("127.0.0.1", port, "vault", house.agent)
            assert channel.peer.serial == identity.serial
            accepted.result(PATIENCE_SECONDS).close()
            channel.close()
    acceptor.close()
