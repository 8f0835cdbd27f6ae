"""How fast the way to a storage daemon is: round trips, and bytes a second by connections at once.

The daemon discards what it gets and sends noise (PROBE, see net.storage.protocol), with the
protection that backups will have, so TLS is in the figures and the far disk is not.
"""

from __future__ import annotations

import os
import socket
import struct
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from strongroom import clock
from strongroom.measure.profile import NetworkProfile, Transfer
from strongroom.measure.together import rate_together
from strongroom.net.storage.client import StorageClient
from strongroom.net.storage.protocol import PROTOCOL_VERSION, FrameType, Probe, StorageHello

if TYPE_CHECKING:
    from collections.abc import Callable

    from strongroom.net.channels.channel import Channel
    from strongroom.net.storage.client import StorageAnswer

STREAMS: Final = (1, 2, 4, 8, 16)
SEND_BYTES: Final = 1 << 20
RECEIVE_BYTES: Final = 4 << 20
# So many requests are on the way, so that no round trip is waited for.
AHEAD: Final = 8

_ROUND_TRIPS: Final = 20
# struct tcp_info of linux/tcp.h: eight single bytes, then numbers of 32 bits.
_INFO: Final = struct.Struct("=8B24I")
_SEND_SEGMENT, _PATH_MTU, _RTT, _RTT_VARIATION = (8 + field for field in (2, 13, 15, 16))
_NAME_BYTES: Final = 16


def measure_network(
    server: str, connect: Callable[[], Channel], seconds: float, tell: Callable[[str], None]
) -> NetworkProfile:
    """Measure the way to a daemon; `connect` makes a channel of its own for each connection.

    Raises UsageError, ConnectionLostError, PeerRefusedError, and RightError when the certificate
    may not add anything there.
    """
    tell("round trips")
    channel = connect()
    client = _client(channel, server)
    try:
        for _ in range(_ROUND_TRIPS):
            client.ask(FrameType.PROBE, Probe(0))
        mode = client.security.mode
        info, congestion_control = _tcp_info(channel)
    finally:
        client.close()
    before = _segments()
    transfers = []
    directions: tuple[Literal["send", "receive"], ...] = ("send", "receive")
    for direction in directions:
        for streams in STREAMS:
            tell(f"{direction}, {streams} connections at once")
            prepare = _sender if direction == "send" else _receiver
            rate = rate_together(lambda of=prepare: of(connect, server), seconds, streams)  # type: ignore[misc]
            transfers.append(Transfer(direction, streams, rate))
    after = _segments()
    return NetworkProfile(
        server,
        mode,
        float(info[_RTT]),
        float(info[_RTT_VARIATION]),
        info[_SEND_SEGMENT],
        info[_PATH_MTU],
        congestion_control,
        after[0] - before[0],
        after[1] - before[1],
        tuple(transfers),
    )


def _client(channel: Channel, server: str) -> StorageClient:
    client = StorageClient(channel, StorageHello(PROTOCOL_VERSION), server)
    # The daemon's reason for refusing us is raised here.
    _ = client.welcome
    return client


def _sender(connect: Callable[[], Channel], server: str) -> Callable[[], int]:
    client = _client(connect(), server)
    noise = clock.random_bytes(SEND_BYTES)
    return _ahead(lambda: client.request(FrameType.PROBE, Probe(0), noise), client, SEND_BYTES)


def _receiver(connect: Callable[[], Channel], server: str) -> Callable[[], int]:
    client = _client(connect(), server)
    return _ahead(
        lambda: client.request(FrameType.PROBE, Probe(RECEIVE_BYTES)), client, RECEIVE_BYTES
    )


def _ahead(
    request: Callable[[], StorageAnswer], client: StorageClient, size_bytes: int
) -> Callable[[], int]:
    waiting: deque[StorageAnswer] = deque()

    def step() -> int:
        while len(waiting) < AHEAD:
            waiting.append(request())
        client.wait(waiting.popleft())
        return size_bytes

    return step


def _tcp_info(channel: Channel) -> tuple[tuple[int, ...], str]:
    """What the kernel knows of the connection; zeros for a Unix socket."""
    with socket.socket(fileno=os.dup(channel.fileno())) as same:
        if same.family == socket.AF_UNIX:
            return (0,) * (8 + 24), ""
        data = same.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO.size)
        name = same.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, _NAME_BYTES)
    return _INFO.unpack(data), name.rstrip(b"\0").decode("ascii")


def _segments() -> tuple[int, int]:
    """Segments sent again, and all that were sent, by this machine since boot."""
    lines = [line.split() for line in Path("/proc/net/snmp").read_text().splitlines()]
    names, values = (line for line in lines if line[0] == "Tcp:")
    found = dict(zip(names, values, strict=True))
    return int(found["RetransSegs"]), int(found["OutSegs"])
