"""TLS by the kernel, on a kernel that can: proven, right in every byte, never taken for granted.

Run by `make test-vm` as root of a guest.
"""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import pytest

from strongroom.base.errors import StrongroomError
from strongroom.net.channels import ktls
from strongroom.net.channels.connecting import Acceptor, connect
from strongroom.net.identities.authority import Authority
from strongroom.net.identities.identity import Identity

pytestmark = pytest.mark.vm

BLACKLIST = "/etc/modprobe.d/no-tls.conf"
SIZE = 8 << 20


@pytest.fixture(scope="module")
def identities(tmp_path_factory):
    folder = tmp_path_factory.mktemp("identities")
    authority = Authority.create(os.fsencode(folder / "ca"), "test")
    found = {}
    for name, role in (("vault", "storage"), ("web", "agent")):
        place = os.fsencode(folder / name)
        authority.issue_identity(place, name, role, ["127.0.0.1"])
        found[name] = Identity.load(place)
    return found


@pytest.fixture
def with_tls():
    with suppress(FileNotFoundError):
        os.unlink(BLACKLIST)
    subprocess.run(["modprobe", "tls"], check=True)


@pytest.fixture
def without_tls():
    with open(BLACKLIST, "w", encoding="ascii") as file:
        file.write("install tls /bin/false\n")
    subprocess.run(["modprobe", "-r", "tls"], check=True)
    yield
    os.unlink(BLACKLIST)


class Recorder:
    """A relay that keeps what went over the wire to the client."""

    def __init__(self, port):
        self.seen = bytearray()
        self._target = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        ours, _ = self._listening.accept()
        theirs = socket.create_connection(("127.0.0.1", self._target))
        threading.Thread(target=self._pass_on, args=(ours, theirs, None), daemon=True).start()
        self._pass_on(theirs, ours, self.seen)

    def _pass_on(self, source, sink, record):
        with suppress(OSError):
            while data := source.recv(1 << 16):
                if record is not None:
                    record += data
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)


@contextmanager
def channels(identities, mode, recorded=False):
    """Both ends of a connection, and what went over the wire to the client."""
    acceptor = Acceptor(identities["vault"], lambda *_: True)
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    recorder = Recorder(port) if recorded else None
    with ThreadPoolExecutor(1) as pool:
        accepted = pool.submit(lambda: acceptor.accept(listening.accept()[0]))
        ours = connect(
            "127.0.0.1", recorder.port if recorder else port, "vault", identities["web"], mode
        )
        theirs = accepted.result(30)
        try:
            yield ours, theirs, recorder.seen if recorder else None
        finally:
            ours.close()
            theirs.close()
            acceptor.close()
            listening.close()


def kernel_receives():
    """Kernels and OpenSSL from 6.x and 3.2 on take over what is received with TLS 1.3, too."""
    import ssl

    return ssl.OPENSSL_VERSION_INFO >= (3, 2)


def test_both_ends_prove_that_the_kernel_does_the_work(identities, with_tls):
    before = ktls.read_counters()
    with channels(identities, "ktls") as (ours, theirs, _):
        for end in (ours, theirs):
            assert end.security.mode == "ktls"
            assert end.security.ktls_send
            assert end.security.ktls_receive == kernel_receives()
            assert end.security.ktls_counted
            assert not end.security.warning
        assert ours.security.peer_ktls_send
    after = ktls.read_counters()
    assert after.send >= before.send + 2
    assert after.receive >= before.receive + (2 if kernel_receives() else 0)


@pytest.mark.parametrize("mode", ["tls", "ktls", "ktls-required"])
def test_every_byte_arrives_in_order_both_ways_at_once(identities, with_tls, mode):
    data = secrets.token_bytes(SIZE)
    with channels(identities, mode) as (ours, theirs, _), ThreadPoolExecutor(4) as pool:
        steps = [
            pool.submit(ours.send, data[:1], data[1:70_000], data[70_000:]),
            pool.submit(theirs.send, data),
        ]
        assert theirs.receive_exactly(SIZE) == data
        assert ours.receive_exactly(SIZE) == data
        for step in steps:
            step.result(60)


@pytest.mark.parametrize("mode", ["off", "tls", "ktls"])
def test_a_file_sent_by_the_kernel_is_right_and_is_not_plain_on_the_wire(
    identities, with_tls, tmp_path, mode
):
    marker = secrets.token_bytes(32)
    data = marker * (SIZE // len(marker))
    (tmp_path / "file").write_bytes(data)
    descriptor = os.open(tmp_path / "file", os.O_RDONLY)
    with channels(identities, mode, recorded=True) as (ours, theirs, seen):
        if mode == "ktls":
            assert theirs.security.ktls_send
        with ThreadPoolExecutor(1) as pool:
            sent = pool.submit(theirs.send_file, descriptor, 64, SIZE - 64)
            assert ours.receive_exactly(SIZE - 64) == data[64:]
            sent.result(60)
            theirs.send(b"and on")
            assert ours.receive_exactly(6) == b"and on"
        # Without TLS only the transport is plain; what is stored is sealed by the engine.
        assert (marker in bytes(seen)) == (mode == "off")
    os.close(descriptor)


def test_without_the_module_it_falls_back_with_a_warning(identities, without_tls):
    with channels(identities, "ktls") as (ours, theirs, _):
        assert ours.security.mode == "tls"
        assert not ours.security.ktls_send
        assert "modprobe tls" in ours.security.warning
        ours.send(b"still safe")
        assert theirs.receive_exactly(10) == b"still safe"


def test_without_the_module_required_ktls_is_refused(identities, without_tls):
    with (
        pytest.raises(StrongroomError, match=r"kTLS|kernel"),
        channels(identities, "ktls-required"),
    ):
        pass
