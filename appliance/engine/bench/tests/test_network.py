"""The benchmark of the network measures what it says: its link, its targets, its document."""

import os
import socket
import threading
import time
from dataclasses import replace

import pytest

from strongroom.cli.measure.testbed.link import slow_link
from strongroom_bench.network.attack import measure_attack
from strongroom_bench.network.fleet import make_source
from strongroom_bench.network.report import network_figures
from strongroom_bench.network.samples import Part, Sample, load_parts, save_parts

SAMPLE = Sample("kernel", "local", 0, 4.0, 7.0, 0.0, 100_000_000, 0, 237_000_000)
MACHINE = {"processor": "quick"}


@pytest.fixture
def echo():
    """The port of a server that sends back what it gets, until the end."""

    def serve() -> None:
        connection, _ = listening.accept()
        with connection:
            while data := connection.recv(1 << 16):
                connection.sendall(data)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=serve, daemon=True).start()
        yield listening.getsockname()[1]


def _back_from(port: int, data: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), 30) as connection:
        threading.Thread(target=connection.sendall, args=(data,), daemon=True).start()
        back = b""
        while len(back) < len(data):
            back += connection.recv(1 << 20)
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(1) == b""
    return back


def test_the_link_passes_everything_on_unchanged(echo):
    data = os.urandom(9 << 20)
    with slow_link(echo, 1) as port:
        assert _back_from(port, data) == data


def test_the_link_takes_its_time(echo):
    """Once for setting up the connection and once for the way there and back."""
    begin = time.monotonic()
    with slow_link(echo, 200) as port:
        _back_from(port, b"x")
    assert time.monotonic() - begin >= 0.4


def _part(*samples: Sample) -> Part:
    return Part("loopback", "2026-01-01", MACHINE, {"strongroom": "0"}, list(samples))


def test_a_target_is_met_or_not_by_the_medians():
    ways = [
        SAMPLE,
        replace(SAMPLE, way="network, off", wall_seconds=5.0),
        replace(SAMPLE, way="network, tls", wall_seconds=5.1),
        replace(SAMPLE, way="network, tls", wall_seconds=9.0, round_number=1),
        replace(SAMPLE, way="network, tls", wall_seconds=4.9, round_number=2),
    ]
    text = network_figures({"loopback": _part(*ways)})
    assert "| kernel, off: at least 80% of local speed | 80% | met |" in text
    assert "| kernel, tls: at least 80% of local speed | 78% | **not met** |" in text


def test_parts_come_back_from_their_file(tmp_path):
    part = _part(SAMPLE)
    part.figures["agents"] = 200
    save_parts(tmp_path / "parts.json", [part])
    assert load_parts(tmp_path / "parts.json") == {"loopback": part}
    assert load_parts(tmp_path / "nothing.json") == {}


def test_agents_share_few_of_their_files(tmp_path):
    for number in (0, 1):
        (tmp_path / str(number)).mkdir()
        make_source(tmp_path / str(number), number)
    names = sorted(os.listdir(tmp_path / "0"))
    same = [
        name
        for name in names
        if (tmp_path / "0" / name).read_bytes() == (tmp_path / "1" / name).read_bytes()
    ]
    assert len(names) == 60
    assert len(same) == 12


@pytest.mark.slow
def test_a_backup_beside_an_attack_ends_and_the_figures_are_in_the_text(tmp_path):
    figures = measure_attack(tmp_path / "attack", 1, 0.01, lambda _: None)
    assert figures["attacked_threads"] > figures["calm_threads"] > 0
    assert figures["attacked_descriptors"] > figures["calm_descriptors"]
    text = network_figures({"attack": Part("attack", "2026", MACHINE, {}, figures=figures)})
    assert f"| {figures['calm_threads']} | {figures['attacked_threads']} |" in text
