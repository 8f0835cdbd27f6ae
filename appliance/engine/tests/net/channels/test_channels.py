"""What every channel promises, whatever protects it."""

import os
import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kit.connections import PATIENCE_SECONDS, connected
from strongroom.base.errors import ConnectionLostError
from strongroom.net.channels import ktls

MODES = ["off", "tls", "ktls", "local"]
# More than the socket buffers of both ends hold together.
MUCH = 24 << 20


@pytest.fixture(params=MODES, scope="module")
def channels(request, shared_house):
    with connected(shared_house, request.param) as pair:
        yield pair


@pytest.fixture(params=MODES)
def fresh_channels(request, shared_house):
    with connected(shared_house, request.param) as pair:
        yield pair


def in_thread(call, *values):
    pool = ThreadPoolExecutor(1)
    future = pool.submit(call, *values)
    pool.shutdown(wait=False)
    return future


def test_each_end_knows_the_other(channels, shared_house):
    ours, theirs = channels
    if ours.security.mode == "local":
        assert (theirs.peer.role, theirs.peer.serial) == ("local", "")
        return
    assert (ours.peer.name, ours.peer.role) == ("vault", "storage")
    assert (theirs.peer.name, theirs.peer.role) == ("web1", "agent")
    assert theirs.peer.serial == shared_house.agent.serial
    assert ours.peer.serial == shared_house.storage.serial


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    sends=st.lists(
        st.lists(st.sampled_from([0, 1, 7, 4096, 65_536, 262_144, 300_000]), max_size=4), max_size=4
    ),
    seed=st.integers(0, 1 << 32),
    forwards=st.booleans(),
)
def test_bytes_arrive_in_order_however_they_are_cut(channels, sends, seed, forwards):
    source, sink = channels if forwards else channels[::-1]
    chance = random.Random(seed)
    parts = [[chance.randbytes(size) for size in sizes] for sizes in sends]
    whole = b"".join(part for one in parts for part in one)

    def send_all():
        for one in parts:
            source.send(*one)

    sending = in_thread(send_all)
    received = b""
    while len(received) < len(whole):
        size = min(chance.choice([1, 100, 70_000, 1 << 20]), len(whole) - len(received))
        received += sink.receive_exactly(size)
    sending.result(PATIENCE_SECONDS)
    assert received == whole


def test_views_of_other_shapes_are_sent_as_their_bytes(channels):
    ours, theirs = channels
    numbers = memoryview(bytearray(range(16))).cast("I")
    ours.send(numbers, bytearray(b"ab"), memoryview(b"abcdef")[::1])
    assert theirs.receive_exactly(24) == bytes(range(16)) + b"ababcdef"


def test_both_may_send_more_than_the_network_holds_while_both_receive(channels):
    """Neither side's sender may keep its own receiver from reading: that would never end."""
    ours, theirs = channels
    blocks = {end: random.Random(number).randbytes(MUCH) for number, end in enumerate(channels)}

    def receive(end):
        buffer = memoryview(bytearray(MUCH))
        for start in range(0, MUCH, 1 << 20):
            end.receive_into(buffer[start : start + (1 << 20)])
        return buffer

    steps = [in_thread(end.send, blocks[end]) for end in channels]
    received = [in_thread(receive, end) for end in channels]
    for step in steps:
        step.result(2 * PATIENCE_SECONDS)
    assert received[0].result(PATIENCE_SECONDS) == blocks[theirs]
    assert received[1].result(PATIENCE_SECONDS) == blocks[ours]


def test_a_receiver_is_served_while_its_own_side_sends_without_an_end(fresh_channels):
    """The daemon's answers come through although the client never stops sending."""
    ours, theirs = fresh_channels

    def send():
        while True:
            ours.send(bytes(1 << 20))

    def take():
        while True:
            theirs.receive_exactly(1 << 18)

    endless = [in_thread(call) for call in (send, take)]
    answering = in_thread(lambda: [theirs.send(bytes(1000)) for _ in range(50)])
    for _ in range(50):
        assert ours.receive_exactly(1000) == bytes(1000)
    answering.result(PATIENCE_SECONDS)
    ours.shutdown()
    for one in endless:
        with pytest.raises(ConnectionLostError):
            one.result(PATIENCE_SECONDS)


@pytest.mark.parametrize(("offset", "length"), [(0, 0), (0, 1), (1, 700_000), (4096, 3_000_000)])
def test_a_part_of_a_file_arrives(channels, tmp_path, offset, length):
    content = random.Random(length).randbytes(offset + length + 10)
    (tmp_path / "file").write_bytes(content)
    ours, theirs = channels
    descriptor = os.open(tmp_path / "file", os.O_RDONLY)
    try:

        def send():
            theirs.send(b"head")
            theirs.send_file(descriptor, offset, length)
            theirs.send(b"tail")

        sending = in_thread(send)
        expected = b"head" + content[offset : offset + length] + b"tail"
        assert ours.receive_exactly(len(expected)) == expected
        sending.result(PATIENCE_SECONDS)
    finally:
        os.close(descriptor)


def test_a_file_that_became_shorter_breaks_the_connection_rather_than_the_order(
    fresh_channels, tmp_path
):
    (tmp_path / "file").write_bytes(bytes(1000))
    ours, _ = fresh_channels
    descriptor = os.open(tmp_path / "file", os.O_RDONLY)
    with pytest.raises(ConnectionLostError, match="shorter"):
        ours.send_file(descriptor, 0, 2000)
    os.close(descriptor)


def test_an_end_between_messages_is_clean(fresh_channels):
    ours, theirs = fresh_channels
    ours.send(b"last")
    ours.close()
    assert theirs.receive_exactly(4) == b"last"
    assert theirs.wait_readable(PATIENCE_SECONDS)
    for _ in range(2):
        with pytest.raises(ConnectionLostError) as caught:
            theirs.receive_exactly(1)
        assert caught.value.clean


def test_an_end_in_the_middle_is_not_clean(fresh_channels):
    ours, theirs = fresh_channels
    ours.send(b"half")
    ours.close()
    with pytest.raises(ConnectionLostError) as caught:
        theirs.receive_exactly(5)
    assert not caught.value.clean


def test_a_connection_that_is_cut_without_goodbye_is_not_clean(fresh_channels):
    ours, theirs = fresh_channels
    if ours.security.mode == "local":
        pytest.skip("no one is between the ends of a Unix socket")
    ours.shutdown()
    with pytest.raises(ConnectionLostError) as caught:
        theirs.receive_exactly(1)
    assert not caught.value.clean


def test_a_stall_ends_after_the_timeout(fresh_channels):
    ours, theirs = fresh_channels
    theirs.send(b"x")
    ours.set_timeout(0.1)
    with pytest.raises(ConnectionLostError, match="stalled"):
        ours.receive_exactly(2)
    ours.set_timeout(0.1)
    with pytest.raises(ConnectionLostError, match="stalled"):
        ours.send(bytes(64 << 20))


def test_waiting_tells_whether_something_came(fresh_channels):
    ours, theirs = fresh_channels
    assert not ours.wait_readable(0)
    theirs.send(b"ab")
    assert ours.wait_readable(PATIENCE_SECONDS)
    assert ours.receive_exactly(1) == b"a"
    # The second byte has left the socket with the first.
    assert ours.wait_readable(0)
    assert ours.receive_exactly(1) == b"b"
    assert not ours.wait_readable(0)


@pytest.mark.parametrize("action", ["send", "receive"])
def test_shutdown_wakes_whoever_waits_inside(fresh_channels, action):
    ours, _ = fresh_channels
    call = (
        (lambda: ours.send(bytes(64 << 20)))
        if action == "send"
        else lambda: ours.receive_exactly(1)
    )
    inside = in_thread(call)
    threading.Timer(0.1, ours.shutdown).start()
    with pytest.raises(ConnectionLostError):
        inside.result(PATIENCE_SECONDS)


@pytest.mark.skipif(ktls.is_available(), reason="this kernel does TLS; see tests/vm")
def test_ktls_falls_back_to_tls_and_says_so(shared_house):
    with connected(shared_house, "ktls") as (ours, theirs):
        for end in (ours, theirs):
            assert end.security.mode == "tls"
            assert not end.security.ktls_send
            assert "modprobe tls" in end.security.warning
        assert ours.security.report()["ktls_receive"] is False


def test_plain_tls_never_asks_for_the_kernel(shared_house):
    accepted = []
    with connected(shared_house, "tls", accepted_sockets=accepted) as (ours, theirs):
        for end in (ours, theirs):
            assert end.security.warning == ""
            assert end.security.mode == "tls"
        with accepted[0] as connection:
            assert ktls.prove(connection, None) == ktls.KtlsProof()
