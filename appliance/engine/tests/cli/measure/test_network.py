"""The way to a storage daemon: real daemons, and what a probe must not do."""

import socket

import pytest

from kit.storage_site import StorageSite
from strongroom.base.errors import ProtocolError, RightError
from strongroom.cli.measure.network import STREAMS, measure_network
from strongroom.net.channels.connecting import connect
from strongroom.net.channels.local_channel import connect_local
from strongroom.net.storage.client import StorageClient
from strongroom.net.storage.protocol import (
    LARGEST_PART_BYTES,
    PROTOCOL_VERSION,
    FrameType,
    Probe,
    StorageHello,
)


def silent(text):
    """What is reported each step is not shown."""
    assert text


@pytest.fixture
def site(tmp_path):
    made = StorageSite(tmp_path)
    yield made
    assert made.stop() == 0, made.log()


def dialler(site, name, role, mode="tls"):
    identity = site.identity(name, role)
    return lambda: connect("127.0.0.1", site.port, "127.0.0.1", identity, mode)


def files_of(site):
    # Not the daemon's own book, in which it writes down whom it knows, nor the space that it keeps
    # for a full disk.
    return {
        path: path.stat().st_size
        for path in site.repository.rglob("*")
        if path.is_file() and path.parent.name != "provenance" and path.name != "reserve"
    }


@pytest.mark.parametrize("mode", ["tls", "off"])
def test_an_agent_measures_its_way_and_stores_nothing(site, mode):
    if mode == "off":
        site.stop()
        site.configure('Plain Clients = "web1"')
        site.start()
    before = files_of(site)
    steps = []
    found = measure_network("vault", dialler(site, "web1", "agent", mode), 0.1, steps.append)
    assert found.mode == mode
    assert found.rtt_us > 0
    assert found.path_mtu_bytes > 500
    assert found.sent_segments > 0
    assert 0 <= found.retransmitted <= found.sent_segments
    for direction in ("send", "receive"):
        of_one = [one for one in found.transfers if one.direction == direction]
        assert tuple(one.streams for one in of_one) == STREAMS
        assert all(one.bytes_per_second > 0 for one in of_one)
    assert files_of(site) == before


def test_what_others_send_meanwhile_is_not_counted(site):
    server = socket.create_server(("127.0.0.1", 0))
    other = socket.create_connection(server.getsockname())
    near, _ = server.accept()

    def send(_text):
        other.sendall(b"of somebody else")
        assert near.recv(1000)

    with server, other, near:
        # A Unix socket: no segment is ours.
        path = str(site.socket)
        found = measure_network("vault", lambda: connect_local(path), 0.1, send)
    assert (found.retransmitted, found.sent_segments) == (0, 0)
    assert all(one.bytes_per_second > 0 for one in found.transfers)


def test_who_may_not_add_may_not_probe(site):
    with pytest.raises(RightError, match="probe"):
        measure_network("vault", dialler(site, "ann", "operator"), 0.1, silent)


def test_a_probe_asks_for_one_frame_at_most(site):
    client = StorageClient(
        dialler(site, "web1", "agent")(), StorageHello(PROTOCOL_VERSION), "vault"
    )
    try:
        answer = client.ask(FrameType.PROBE, Probe(LARGEST_PART_BYTES))
        assert answer.size_bytes == LARGEST_PART_BYTES
        # Noise: no part of it says anything, and it is not that of the last answer.
        assert answer.payload() != client.ask(FrameType.PROBE, Probe(LARGEST_PART_BYTES)).payload()
        with pytest.raises(ProtocolError, match="header"):
            client.ask(FrameType.PROBE, Probe(LARGEST_PART_BYTES + 1))
    finally:
        client.close()
