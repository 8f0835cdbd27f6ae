"""A link between two daemons that a test drops, stalls, half closes or cuts anywhere.

Anyone who dials `port` reaches `target` through it. Several connections at once; faults hold for
all of them.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from typing import Self

from strongroom.net.channels.channel import tune_socket

# Closing then tells the peer by a reset, as a machine does that forgot the connection.
_RESET = struct.pack("ii", 1, 0)


class FaultyLink:
    """See the module. `_state` guards what threads and the test share."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._state = threading.Condition()
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._is_down = False
        self._is_stalled = False
        self._bytes_left: int | None = None
        self._fault: Callable[[], None] = self.drop
        self.carried_bytes = 0
        self.cuts = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self._listening.close()
        self.resume()
        self.drop()

    def drop(self) -> None:
        """Every connection is reset; new ones are taken."""
        with self._state:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            for end in pair:
                _reset(end)

    def go_down(self) -> None:
        """Every connection is reset, new ones as well, until `come_up`."""
        with self._state:
            self._is_down = True
        self.drop()

    def come_up(self) -> None:
        """Take connections again."""
        with self._state:
            self._is_down = False

    def stall(self) -> None:
        """Nothing passes, and no one is notified, until `resume`."""
        with self._state:
            self._is_stalled = True

    def resume(self) -> None:
        """Pass on what was held back."""
        with self._state:
            self._is_stalled = False
            self._state.notify_all()

    def half_close(self) -> None:
        """Anyone who dialled seems to have said its last; it can still be spoken to."""
        with self._state:
            pairs = list(self._pairs)
        for _, server in pairs:
            with contextlib.suppress(OSError):
                server.shutdown(socket.SHUT_WR)

    def cut_after(self, count: int) -> None:
        """After so many more bytes from those who dial everything is reset, once."""
        with self._state:
            self._bytes_left, self._fault = count, self.drop

    def half_close_after(self, count: int) -> None:
        """The same, but as `half_close` does it."""
        with self._state:
            self._bytes_left, self._fault = count, self.half_close

    @property
    def connections(self) -> int:
        """How many there are now."""
        with self._state:
            return len(self._pairs)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                with self._state:
                    if self._is_down:
                        _reset(client)
                        continue
                try:
                    server = socket.create_connection(("127.0.0.1", self._target))
                except OSError:
                    client.close()
                    continue
                tune_socket(client)
                tune_socket(server)
                pair = (client, server)
                with self._state:
                    self._pairs.append(pair)
                for source, sink, counts in ((client, server, True), (server, client, False)):
                    threading.Thread(
                        target=self._pass_on, args=(pair, source, sink, counts), daemon=True
                    ).start()

    def _pass_on(
        self,
        pair: tuple[socket.socket, socket.socket],
        source: socket.socket,
        sink: socket.socket,
        counts: bool,
    ) -> None:
        try:
            while data := source.recv(1 << 16):
                allowed, is_cut = self._allowed(len(data), counts)
                sink.sendall(data[:allowed])
                if is_cut:
                    self._fault()
                    return
        except OSError:
            # Anyone who sends to somebody who has gone is reported so.
            _reset(source)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)
        with self._state:
            # The other direction ends by itself when its source does.
            if not counts and pair in self._pairs:
                self._pairs.remove(pair)

    def _allowed(self, count: int, counts: bool) -> tuple[int, bool]:
        """How many of so many bytes may pass, and whether all ends there."""
        with self._state:
            self._state.wait_for(lambda: not self._is_stalled)
            if not counts:
                return count, False
            self.carried_bytes += count
            if self._bytes_left is None:
                return count, False
            if self._bytes_left > count:
                self._bytes_left -= count
                return count, False
            allowed, self._bytes_left = self._bytes_left, None
            self.cuts += 1
            return allowed, True


def _reset(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        # A thread may be reading it; shutdown wakes that, close alone does not.
        end.shutdown(socket.SHUT_RD)
    end.close()
