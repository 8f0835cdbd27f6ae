"""A machine that answers nothing any more is found out; one that is only busy is waited for."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from kit.connections import PATIENCE_SECONDS, accept_one
from kit.packet_link import NEAR_ADDRESS, PacketLink, cannot_link_packets
from strongroom.base.errors import ConnectionLostError
from strongroom.net.channels import liveness
from strongroom.net.channels.connecting import Acceptor, connect

pytestmark = pytest.mark.skipif(bool(cannot_link_packets()), reason=cannot_link_packets())

UNANSWERED_SECONDS = 1.5
MODES = ["tls", "off"]


@pytest.fixture
def link(monkeypatch):
    monkeypatch.setattr(liveness, "UNANSWERED_SECONDS", UNANSWERED_SECONDS)
    monkeypatch.setattr(liveness, "LOOK_SECONDS", 0.2)
    with PacketLink() as made:
        yield made


@contextlib.contextmanager
def connected(link, house, mode):
    """The agent's channel from one machine, and the storage daemon's on the other."""
    acceptor = Acceptor(house.storage, lambda *_: True)
    with contextlib.ExitStack() as held:
        listener = held.enter_context(link.near.run(socket.create_server, (NEAR_ADDRESS, 0)))
        pool = held.enter_context(ThreadPoolExecutor(1))
        accepted = pool.submit(accept_one, acceptor, listener)
        port = listener.getsockname()[1]
        ours = link.far.run(connect, NEAR_ADDRESS, port, "vault", house.agent, mode)
        held.callback(ours.close)
        theirs = accepted.result(PATIENCE_SECONDS)
        held.callback(theirs.close)
        held.callback(acceptor.close)
        # As in a job: far longer than the test has.
        ours.set_timeout(300)
        theirs.set_timeout(300)
        yield ours, theirs


def sides(pair, is_daemon):
    return pair[::-1] if is_daemon else pair


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("is_daemon", [False, True])
def test_a_sender_finds_out(link, shared_house, mode, is_daemon):
    with connected(link, shared_house, mode) as pair:
        ours, _ = sides(pair, is_daemon)
        link.is_silent = True
        with pytest.raises(ConnectionLostError, match="no answer"):
            ours.send(bytes(64 << 20))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("is_daemon", [False, True])
def test_whoever_waits_for_an_answer_finds_out(link, shared_house, mode, is_daemon):
    with connected(link, shared_house, mode) as pair:
        ours, _ = sides(pair, is_daemon)
        link.is_silent = True
        ours.send(b"a question")
        with pytest.raises(ConnectionLostError, match="no answer"):
            ours.receive_exactly(1)


@pytest.mark.parametrize("mode", MODES)
def test_a_machine_that_vanishes_while_its_window_is_closed_is_found_out(link, shared_house, mode):
    with connected(link, shared_house, mode) as (ours, _), ThreadPoolExecutor(1) as pool:
        sent = pool.submit(ours.send, bytes(64 << 20))
        await_quiet(link)
        link.is_silent = True
        with pytest.raises(ConnectionLostError, match="no answer"):
            sent.result(PATIENCE_SECONDS)


@pytest.mark.parametrize("mode", MODES)
def test_a_busy_peer_whose_machine_answers_is_waited_for(link, shared_house, mode):
    with connected(link, shared_house, mode) as (ours, theirs), ThreadPoolExecutor(1) as pool:
        sent = pool.submit(ours.send, bytes(64 << 20))
        await_quiet(link)
        # Its disk takes its time: the window stays closed, the kernel answers.
        assert not threading.Event().wait(3 * UNANSWERED_SECONDS)
        assert not sent.done()
        theirs.receive_into(memoryview(bytearray(64 << 20)))
        sent.result(PATIENCE_SECONDS)
        # The kernel's own limit would have ended it, were the disk slower still.
        with socket_to(NEAR_ADDRESS) as connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 0
            assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1


def socket_to(address):
    """A duplicate of this process's only socket that is connected to an address."""
    found = []
    for number in map(int, os.listdir("/proc/self/fd")):
        with contextlib.suppress(OSError):  # the listing is closed by now, or it is not connected
            if not stat.S_ISSOCK(os.fstat(number).st_mode):
                continue
            with socket.socket(fileno=os.dup(number)) as one:
                if one.family == socket.AF_INET and one.getpeername()[0] == address:
                    found.append(one.dup())
    (only,) = found
    return only


def await_quiet(link):
    """Wait until the window of the receiver is closed, so that only probes pass."""
    until = time.monotonic() + PATIENCE_SECONDS
    passed = -1
    while link.counts.passed - passed > 4:
        assert time.monotonic() < until
        passed = link.counts.passed
        time.sleep(0.2)
