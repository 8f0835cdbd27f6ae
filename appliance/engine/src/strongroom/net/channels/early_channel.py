"""A channel to a daemon that has not accepted or refused us yet.

Requests are sent before its greeting arrives, which saves a round trip. The greeting is read before
anything else; a refusal is raised by the first call after it has arrived.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from typing_extensions import Buffer

from strongroom.base import clock
from strongroom.base.errors import ConnectionLostError
from strongroom.net.channels.channel import Channel
from strongroom.net.channels.greeting import receive_greeting


class EarlyChannel(Channel):
    """A channel around one whose handshake is done.

    `deadline_seconds`: when the greeting must have arrived, else ConnectionLostError. One thread
    may send while another receives: `_greeting` is held while the greeting is read.
    """

    def __init__(self, inner: Channel, deadline_seconds: float) -> None:
        self._inner = inner
        self.peer = inner.peer
        self.security = inner.security
        self._deadline_seconds = deadline_seconds
        self._greeting = threading.Lock()
        self._is_accepted = False

    def send(self, *parts: Buffer) -> None:
        """Send the parts."""
        self._say(lambda: self._inner.send(*parts))

    def send_content(self, start: Buffer, content: Buffer) -> None:
        """Send both."""
        self._say(lambda: self._inner.send_content(start, content))

    def send_file(self, descriptor: int, offset: int, length: int) -> None:
        """Send a part of a file."""
        self._say(lambda: self._inner.send_file(descriptor, offset, length))

    def receive_into(self, view: memoryview) -> None:
        """Fill `view`."""
        self._await_greeting()
        self._inner.receive_into(view)

    def wait_readable(self, timeout_seconds: float) -> bool:
        """Wait for bytes that follow the greeting, or the end."""
        self._await_greeting()
        return self._inner.wait_readable(timeout_seconds)

    def set_timeout(self, seconds: float | None) -> None:
        """Bound every wait that follows the greeting."""
        self._inner.set_timeout(seconds)

    def fileno(self) -> int:
        """The descriptor of the socket."""
        return self._inner.fileno()

    def shutdown(self) -> None:
        """End the connection, from any thread."""
        self._inner.shutdown()

    def close(self) -> None:
        """Release the descriptor."""
        self._inner.close()

    def _say(self, send: Callable[[], None]) -> None:
        try:
            send()
        except ConnectionLostError:
            # A daemon that refuses us says why before it closes.
            if not self._is_accepted and self._inner.wait_readable(0.0):
                self._await_greeting()
            raise

    def _await_greeting(self) -> None:
        with self._greeting:
            if self._is_accepted:
                return
            left_seconds = max(0.001, self._deadline_seconds - clock.elapsed_seconds())
            if not self._inner.wait_readable(left_seconds):
                raise ConnectionLostError("the daemon did not send its greeting in time")
            # It is a few bytes, in one record. A timeout set here would also apply to the thread
            # that sends meanwhile, and would have expired when the first answer is read late.
            receive_greeting(self._inner)
            self._is_accepted = True
