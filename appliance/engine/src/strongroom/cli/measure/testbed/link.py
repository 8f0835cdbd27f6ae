"""A slow link: `python -m strongroom.cli.measure.testbed.link PORT MILLISECONDS [BYTES_A_SECOND]`.

Relays TCP connections of loopback to PORT; the way there and back takes MILLISECONDS, half
of it in each direction. Setting a connection up takes as much before the first byte. All
connections together carry BYTES_A_SECOND in each direction, 0 for as many as come. What a sender
may have under way is bounded as TCP would bound it: WINDOW_BYTES are unacknowledged at most, and an
acknowledgement takes as long to come back as data. The first line on standard output is the port
that it listens on.

This stands in for tc's netem, which many kernels (those of containers and small guests) lack.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from strongroom.base import clock
from strongroom.base.interpreter import module_command

# What Linux lets a connection have under way when no one tunes it: the largest of tcp_wmem.
WINDOW_BYTES: Final = 4 << 20
PIECE_BYTES: Final = 256 << 10
# On a slow link in smaller pieces, so that connections take turns as on a real one.
SLOW_PIECE_BYTES: Final = 16 << 10


@contextmanager
def slow_link(port: int, milliseconds: float, bytes_per_second: float = 0.0) -> Iterator[int]:
    """The port of a relay to `port`, in its own process."""
    words = [str(port), str(milliseconds), str(bytes_per_second)]
    command = module_command("strongroom.cli.measure.testbed.link", *words)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as relay:
        assert relay.stdout is not None
        try:
            yield int(relay.stdout.readline())
        finally:
            relay.terminate()


class Pace:
    """How fast one direction of the link is, for all its connections. Safe from any thread."""

    def __init__(self, bytes_per_second: float) -> None:
        self._bytes_per_second = bytes_per_second
        self._free_at = 0.0
        self._lock = threading.Lock()

    @property
    def piece_bytes(self) -> int:
        """How much is taken at once."""
        return SLOW_PIECE_BYTES if self._bytes_per_second else PIECE_BYTES

    def sent_at(self, size_bytes: int, begin: float) -> float:
        """When the last of so many bytes has left, begun at `begin` at the earliest."""
        if not self._bytes_per_second:
            return begin
        with self._lock:
            self._free_at = max(begin, self._free_at) + size_bytes / self._bytes_per_second
            return self._free_at


class Direction:
    """One direction of one connection: a thread takes in, another gives out, later."""

    def __init__(
        self,
        source: socket.socket,
        sink: socket.socket,
        delay_seconds: float,
        pace: Pace,
        setup_seconds: float = 0.0,
    ) -> None:
        self._source = source
        self._sink = sink
        self._delay_seconds = delay_seconds
        self._pace = pace
        self._set_up_at = clock.elapsed_seconds() + setup_seconds
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
                data = self._source.recv(self._pace.piece_bytes)
            except OSError:
                data = b""
            begin = max(clock.elapsed_seconds(), self._set_up_at)
            due = self._pace.sent_at(len(data), begin) + self._delay_seconds
            with self._changed:
                self._under_way.append((due, data))
                self._unacknowledged_bytes += len(data)
                self._changed.notify_all()

    def _await_room(self) -> None:
        with self._changed:
            while True:
                now = clock.elapsed_seconds()
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
                if (early := due - clock.elapsed_seconds()) > 0:
                    time.sleep(early)
                if not data:
                    self._sink.shutdown(socket.SHUT_WR)
                    return
                self._sink.sendall(data)
                with self._changed:
                    acknowledged_at = clock.elapsed_seconds() + self._delay_seconds
                    self._unacknowledged.append((acknowledged_at, len(data)))
                    self._changed.notify_all()
        # The receiver is gone: the sender notices it as it would without the relay.
        with suppress(OSError):
            self._source.shutdown(socket.SHUT_RDWR)


def main() -> int:
    """Relay until terminated."""
    target_port, milliseconds = int(sys.argv[1]), float(sys.argv[2])
    bytes_per_second = float(sys.argv[3]) if len(sys.argv) > 3 else 0.0
    there, back = Pace(bytes_per_second), Pace(bytes_per_second)
    with socket.create_server(("127.0.0.1", 0), backlog=256) as listening:
        os.write(1, f"{listening.getsockname()[1]}\n".encode())
        while True:
            ours, _ = listening.accept()
            theirs = socket.create_connection(("127.0.0.1", target_port))
            for connection in (ours, theirs):
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            one_way_seconds = milliseconds / 2000
            Direction(ours, theirs, one_way_seconds, there, setup_seconds=milliseconds / 1000)
            Direction(theirs, ours, one_way_seconds, back)


if __name__ == "__main__":
    sys.exit(main())
