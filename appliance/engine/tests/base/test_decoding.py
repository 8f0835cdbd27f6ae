"""Decoding what a store or a peer sent."""

import threading
import time

import msgspec

from kit.killed_process import in_child
from strongroom.base.decoding import decode


def slowly(wanted):
    """Let other threads run while msgspec learns the fields of a Struct."""
    time.sleep(0.5)
    return wanted


class Inner(msgspec.Struct, array_like=True):
    number: "slowly(int)"  # a string, so that it is evaluated late


class Outer(msgspec.Struct, array_like=True):
    inner: Inner
    text: str


def test_threads_may_decode_a_type_for_the_first_time_together():
    data = msgspec.msgpack.encode(Outer(Inner(1), "a"))
    found = []

    def decode_together():
        threads = [
            threading.Thread(target=lambda: found.append(decode(data, Outer, "it")))
            for _ in range(2)
        ]
        for thread in threads:
            thread.start()
            time.sleep(0.1)
        for thread in threads:
            thread.join()
        assert found == [Outer(Inner(1), "a")] * 2

    assert in_child(decode_together) == 0
