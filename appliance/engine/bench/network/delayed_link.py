"""A link with latency: `python -m bench.network.delayed_link TARGET_PORT MILLISECONDS`.

Relays TCP connections of loopback to TARGET_PORT; the way there and back takes MILLISECONDS, half
of it in each direction. Setting a connection up takes as much before the first byte. What a sender
may have under way is bounded as TCP would bound it: WINDOW_BYTES are unacknowledged at most, and an
acknowledgement takes as long to come back as data. The first line on standard output is the port
that it listens on.

This stands in for tc's netem, which many kernels (those of containers and small guests) lack.
"""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections import deque
from contextlib import suppress

# What Linux lets a connection have under way when nobody tunes it: the largest of tcp_wmem.
WINDOW_BYTES = 4 << 20
PIECE_BYTES = 256 << 10


class Direction:
    """One direction of one connection: a thread takes in, another gives out, later."""

    def __init__(
        self,
        source: socket.socket,
        sink: socket.socket,
        delay_seconds: float,
        setup_seconds: float = 0.0,
    ) -> None:
        self._source = source
        self._sink = sink
        self._delay_seconds = delay_seconds
        self._set_up_at = time.monotonic() + setup_seconds
        self._changed = threading.Condition()
        self._under_way: deque[tuple[float, bytes]] = deque()
        self._unacknowledged: deque[tuple[float, int]] = deque()
        self._unacknowledged_bytes = 0
        for work in (self._take_in, self._give_out):
            threading.Thread(target=work, daemon=True).start()

    def _take_in(self) -> None:
        data = b"?"
        while data:
            self._await_room()
            try:
                data = self._source.recv(PIECE_BYTES)
            except OSError:
                data = b""
            due = max(time.monotonic(), self._set_up_at) + self._delay_seconds
            with self._changed:
                self._under_way.append((due, data))
                self._unacknowledged_bytes += len(data)
                self._changed.notify_all()

    def _await_room(self) -> None:
        with self._changed:
            while True:
                now = time.monotonic()
                while self._unacknowledged and self._unacknowledged[0][0] <= now:
                    self._unacknowledged_bytes -= self._unacknowledged.popleft()[1]
                if self._unacknowledged_bytes < WINDOW_BYTES:
                    return
                next_at = self._unacknowledged[0][0] if self._unacknowledged else now + 1.0
                self._changed.wait(max(0.0, next_at - now))

    def _give_out(self) -> None:
        with suppress(OSError):
            while True:
                with self._changed:
                    while not self._under_way:
                        self._changed.wait()
                    due, data = self._under_way.popleft()
                if (early := due - time.monotonic()) > 0:
                    time.sleep(early)
                if not data:
                    self._sink.shutdown(socket.SHUT_WR)
                    return
                self._sink.sendall(data)
                with self._changed:
                    acknowledged_at = time.monotonic() + self._delay_seconds
                    self._unacknowledged.append((acknowledged_at, len(data)))
                    self._changed.notify_all()
        # The receiver is gone: the sender notices it as it would without the relay.
        with suppress(OSError):
            self._source.shutdown(socket.SHUT_RDWR)


def main() -> int:
    target_port, milliseconds = int(sys.argv[1]), float(sys.argv[2])
    with socket.create_server(("127.0.0.1", 0), backlog=256) as listening:
        print(listening.getsockname()[1], flush=True)
        while True:
            ours, _ = listening.accept()
            theirs = socket.create_connection(("127.0.0.1", target_port))
            for connection in (ours, theirs):
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            one_way_seconds = milliseconds / 2000
            Direction(ours, theirs, one_way_seconds, setup_seconds=milliseconds / 1000)
            Direction(theirs, ours, one_way_seconds)


if __name__ == "__main__":
    sys.exit(main())
