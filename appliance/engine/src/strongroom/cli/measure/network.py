"""How fast the way to a storage daemon is: round trips, and bytes a second by connections at once.

The daemon discards what it gets and sends noise (PROBE, see net.storage.protocol), with the
protection that backups will have, so TLS is in the figures and the far disk is not. Segments sent
again are those of the connections that are measured, as the kernel counts them for each.
"""

from __future__ import annotations

import os
import socket
import struct
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final, Literal, NamedTuple

from strongroom.base import clock
from strongroom.cli.measure.profile import NetworkProfile, Transfer
from strongroom.cli.measure.together import Worker, work_together
from strongroom.net.channels.channel import Channel
from strongroom.net.storage.client import StorageAnswer, StorageClient
from strongroom.net.storage.protocol import PROTOCOL_VERSION, FrameType, Probe, StorageHello

STREAMS: Final = (1, 2, 4, 8, 16)
SEND_BYTES: Final = 1 << 20
RECEIVE_BYTES: Final = 4 << 20
# So many requests are on the way, so that no round trip is waited for.
AHEAD: Final = 8

_ROUND_TRIPS: Final = 20
# struct tcp_info of linux/tcp.h: eight single bytes, 24 numbers of 32 bits, four of 64, and more of
# 32 up to the segments with data that were sent.
_INFO: Final = struct.Struct("=8B24I4Q6I")
_SEND_SEGMENT, _PATH_MTU, _RTT, _RTT_VARIATION, _RETRANSMITTED, _SENT_SEGMENTS = (
    8 + field for field in (2, 13, 15, 16, 23, 33)
)
_FIELDS: Final = 8 + 24 + 4 + 6
_NAME_BYTES: Final = 16


class _Connection(NamedTuple):
    """A client of the daemon, and the channel below it."""

    client: StorageClient
    channel: Channel


def measure_network(
    server: str, connect: Callable[[], Channel], seconds: float, tell: Callable[[str], None]
) -> NetworkProfile:
    """Measure the way to a daemon; `connect` makes its own channel for each connection.

    Raises UsageError, ConnectionLostError, PeerRefusedError, and RightError when the certificate
    may not add anything there.
    """
    tell("round trips")
    client, channel = _connection(connect, server)
    try:
        for _ in range(_ROUND_TRIPS):
            client.ask(FrameType.PROBE, Probe(0))
        mode = client.security.mode
        info, congestion_control = _tcp_info(channel)
    finally:
        client.close()
    transfers = []
    retransmitted = sent_segments = 0
    directions: tuple[Literal["send", "receive"], ...] = ("send", "receive")
    for direction in directions:
        for streams in STREAMS:
            tell(f"{direction}, {streams} connections at once")
            prepare = _sender if direction == "send" else _receiver
            found = work_together(partial(prepare, connect, server), seconds, streams)
            transfers.append(Transfer(direction, streams, found.rate))
            retransmitted += found.counts[0]
            sent_segments += found.counts[1]
    return NetworkProfile(
        server,
        mode,
        float(info[_RTT]),
        float(info[_RTT_VARIATION]),
        info[_SEND_SEGMENT],
        info[_PATH_MTU],
        congestion_control,
        retransmitted,
        sent_segments,
        tuple(transfers),
    )


def _connection(connect: Callable[[], Channel], server: str) -> _Connection:
    channel = connect()
    client = StorageClient(channel, StorageHello(PROTOCOL_VERSION), server)
    # The daemon's reason for refusing us is raised here.
    _ = client.welcome
    return _Connection(client, channel)


def _sender(connect: Callable[[], Channel], server: str) -> Worker:
    of = _connection(connect, server)
    noise = clock.random_bytes(SEND_BYTES)
    return _ahead(lambda: of.client.request(FrameType.PROBE, Probe(0), noise), of, SEND_BYTES)


def _receiver(connect: Callable[[], Channel], server: str) -> Worker:
    of = _connection(connect, server)
    return _ahead(
        lambda: of.client.request(FrameType.PROBE, Probe(RECEIVE_BYTES)), of, RECEIVE_BYTES
    )


def _ahead(request: Callable[[], StorageAnswer], of: _Connection, size_bytes: int) -> Worker:
    waiting: deque[StorageAnswer] = deque()

    def step() -> int:
        while len(waiting) < AHEAD:
            waiting.append(request())
        of.client.wait(waiting.popleft())
        return size_bytes

    def segments() -> tuple[int, int]:
        info, _ = _tcp_info(of.channel)
        return info[_RETRANSMITTED], info[_SENT_SEGMENTS]

    return Worker(step, segments)


def _tcp_info(channel: Channel) -> tuple[tuple[int, ...], str]:
    """What the kernel knows of the connection; zeros for a Unix socket."""
    with socket.socket(fileno=os.dup(channel.fileno())) as same:
        if same.family == socket.AF_UNIX:
            return (0,) * _FIELDS, ""
        data = same.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO.size)
        name = same.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, _NAME_BYTES)
    # An old kernel knows fewer fields.
    return _INFO.unpack(data.ljust(_INFO.size, b"\0")), name.rstrip(b"\0").decode("ascii")
