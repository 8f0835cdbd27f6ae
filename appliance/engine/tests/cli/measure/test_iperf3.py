"""The way to a server of iperf3: a real one, and what is not a server."""

from __future__ import annotations

import pytest

from kit.iperf3_server import iperf3_server
from kit.ports import free_port
from strongroom.base.errors import UsageError
from strongroom.cli.measure.iperf3 import STREAMS, measure_iperf3, parse_server


def test_both_directions_are_measured_with_one_and_more_streams():
    steps = []
    with iperf3_server() as port:
        found = measure_iperf3(parse_server(f"127.0.0.1:{port}"), 0.1, steps.append)
    assert found.server == f"127.0.0.1:{port}"
    for direction in ("send", "receive"):
        of_one = [one for one in found.transfers if one.direction == direction]
        assert tuple(one.streams for one in of_one) == STREAMS
        assert all(one.bytes_per_second > 0 for one in of_one)
    assert found.retransmitted is not None
    assert len(steps) == len(found.transfers)


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("vault", "vault", 5201),
        ("vault:9", "vault", 9),
        ("10.0.0.1:5202", "10.0.0.1", 5202),
        ("[fe80::1]:7", "fe80::1", 7),
    ],
)
def test_a_server_is_host_and_port(text, host, port):
    assert parse_server(text)[1:] == (host, port)


@pytest.mark.parametrize("text", ["--version", "http://vault", "a/b", "ann@vault", "a:b", ":9"])
def test_what_names_no_server_is_refused(text):
    with pytest.raises(UsageError, match="--iperf3"):
        parse_server(text)


def test_where_nothing_listens_the_error_says_what_to_start():
    with iperf3_server():
        nobody = parse_server(f"127.0.0.1:{free_port()}")
        with pytest.raises(UsageError, match="`iperf3 -s`"):
            measure_iperf3(nobody, 0.1, print)
