"""Which places a daemon listens on, by what it was configured to."""

from __future__ import annotations

import contextlib
import errno
import socket
from collections.abc import Iterator

import pytest

from kit.packet_link import PacketLink, cannot_link_packets
from strongroom.base.errors import OperatingSystemError
from strongroom.net.channels.listening import listen, peer_address, shown_socket

# Ports of a network namespace of the test's own.
PORT = 9101


@pytest.fixture
def both() -> Iterator[PacketLink]:
    if reason := cannot_link_packets():
        pytest.skip(reason)
    with PacketLink() as link:
        yield link


def answering(places: list[tuple[str, int]]) -> list[str]:
    """Of the two addresses of loopback, those that answer."""
    found = []
    with contextlib.ExitStack() as opened:
        for one in listen(places, 5):
            opened.enter_context(one)
        for address in ("127.0.0.1", "::1"):
            with contextlib.suppress(OSError):
                opened.enter_context(socket.create_connection((address, PORT), 5))
                found.append(address)
    return found


@pytest.mark.parametrize(
    ("hosts", "expected"),
    [
        ([""], ["127.0.0.1", "::1"]),
        (["::"], ["127.0.0.1", "::1"]),
        (["0.0.0.0"], ["127.0.0.1"]),
        (["0.0.0.0", "::"], ["127.0.0.1", "::1"]),
        (["", "0.0.0.0"], ["127.0.0.1", "::1"]),
        (["::1"], ["::1"]),
        (["127.0.0.1"], ["127.0.0.1"]),
    ],
)
def test_each_place_answers_over_the_families_it_names(
    both: PacketLink, hosts: list[str], expected: list[str]
) -> None:
    assert both.near.run(answering, [(host, PORT) for host in hosts]) == expected


def test_a_machine_without_ipv6_listens_on_ipv4(
    both: PacketLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A kernel without IPv6 refuses the family when the socket is made.
    real = socket.socket

    def refused(family: int = -1, *rest: int, **named: object) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")
        return real(family, *rest, **named)

    monkeypatch.setattr(socket, "socket", refused)
    (one,) = both.near.run(listen, [("", PORT)], 5)
    with one:
        assert shown_socket(one) == f"0.0.0.0 port {PORT}"


def test_a_name_is_all_its_addresses(both: PacketLink) -> None:
    known = {
        place[0] for *_, place in socket.getaddrinfo("localhost", PORT, type=socket.SOCK_STREAM)
    }
    assert set(both.near.run(answering, [("localhost", PORT)])) == known


def test_an_address_that_the_machine_lacks_leaves_nothing_open(both: PacketLink) -> None:
    with pytest.raises(OperatingSystemError, match=r"192\.0\.2\.1"):
        both.near.run(listen, [("", PORT), ("192.0.2.1", PORT + 1)], 5)
    for one in both.near.run(listen, [("", PORT)], 5):
        one.close()


def test_a_peer_over_ipv4_has_an_address_of_ipv4() -> None:
    assert peer_address("::ffff:192.0.2.7") == "192.0.2.7"
    for same in ("192.0.2.7", "2001:db8::1", "fe80::1%eth0"):
        assert peer_address(same) == same
