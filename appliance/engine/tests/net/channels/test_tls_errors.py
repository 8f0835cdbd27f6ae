"""A connection that broke is no reason for others of the same thread to seem broken."""

from __future__ import annotations

import socket
import struct
import threading
import time

import pytest

from kit.connections import connected
from kit.openssl_errors import leave_an_error
from strongroom.base.errors import ConnectionLostError

ANSWER = b"later"
LARGE = bytes(32 << 20)


def answered_while_we_wait(theirs):
    def answer():
        time.sleep(0.5)
        theirs.send(ANSWER)

    thread = threading.Thread(target=answer)
    thread.start()
    return thread


def received_whole(channel):
    thread = threading.Thread(target=lambda: channel.receive_exactly(len(LARGE)))
    thread.start()
    return thread


def send_forever(channel):
    while True:
        channel.send(LARGE)


def test_waiting_for_an_answer_is_no_failure_after_one_elsewhere(shared_house):
    with connected(shared_house, "tls") as (ours, theirs):
        thread = answered_while_we_wait(theirs)
        leave_an_error()
        assert ours.receive_exactly(len(ANSWER)) == ANSWER
        thread.join()


def test_waiting_until_more_can_be_sent_is_no_failure_after_one_elsewhere(shared_house):
    with connected(shared_house, "tls") as (ours, theirs):
        leave_an_error()
        thread = received_whole(theirs)
        ours.send(LARGE)
        thread.join()


def test_a_thread_makes_a_connection_after_a_failure_elsewhere(shared_house):
    leave_an_error()
    with connected(shared_house, "tls") as (ours, theirs):
        thread = answered_while_we_wait(theirs)
        assert ours.receive_exactly(len(ANSWER)) == ANSWER
        thread.join()


def test_a_thread_whose_connection_was_reset_goes_on_with_another(shared_house):
    """What Python does about OpenSSL's queue differs between versions."""
    sockets: list[socket.socket] = []
    with connected(shared_house, "tls", accepted_sockets=sockets) as (ours, theirs):
        at_once = struct.pack("ii", 1, 0)
        sockets[0].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
        theirs.close()
        sockets[0].close()
        with pytest.raises(ConnectionLostError):
            send_forever(ours)
    with connected(shared_house, "tls") as (ours, theirs):
        thread = answered_while_we_wait(theirs)
        assert ours.receive_exactly(len(ANSWER)) == ANSWER
        thread.join()
