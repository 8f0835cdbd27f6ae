"""Channels that are used before the daemon has said whether it lets us in."""

import socket
import threading

from strongroom.base import clock
from strongroom.net.channels.greeting import EarlyChannel, send_welcome
from strongroom.net.channels.local_channel import local_channel


def test_reading_the_greeting_late_gives_no_timeout_to_who_sends():
    """The deadline has long passed when a shard first waits for an answer; its packs continue."""
    near, far = map(local_channel, socket.socketpair(socket.AF_UNIX))
    send_welcome(far)
    far.send(b"first")
    early = EarlyChannel(near, clock.elapsed_seconds() - 60)
    data = bytes(8 << 20)
    got = bytearray(len(data))
    sender = threading.Thread(target=early.send, args=(data,))
    timeouts = []
    set_timeout = near.set_timeout
    near.set_timeout = lambda seconds: (timeouts.append(seconds), set_timeout(seconds))
    sender.start()
    assert early.receive_exactly(5) == b"first"
    assert timeouts == []
    far.receive_into(memoryview(got))
    sender.join(30)
    assert not sender.is_alive()
    early.close()
    far.close()
