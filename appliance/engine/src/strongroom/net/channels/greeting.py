"""A daemon's first message once it has authenticated the peer: welcome, or the reason for refusal.

    magic "SRHI" | version u8 | flags u8 | reason length u16 | reason (UTF-8)
    flags: 1 welcome, 2 the daemon's kernel encrypts what it sends, 4 what it receives

It is sent inside the protected channel, so a refusal is authentic. It also keeps both sides from
sending before both have finished the handshake; otherwise OpenSSL could not hand the receiving
direction to the kernel.

An early channel is one whose greeting has not arrived: requests are sent before, which saves a
round trip. The greeting is read before anything else; a refusal is raised by the first call after
it has arrived.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable
from typing import NamedTuple

from typing_extensions import Buffer

from strongroom.base import clock
from strongroom.base.errors import ConnectionLostError, PeerRefusedError
from strongroom.net.channels.channel import Channel

_HEAD = struct.Struct("<4sBBH")
_MAGIC = b"SRHI"
_VERSION = 1
_WELCOME = 1
_KTLS_SEND = 2
_KTLS_RECEIVE = 4
_GREATEST_REASON_BYTES = 1024


class Greeting(NamedTuple):
    """What the daemon's kernel does for the connection."""

    ktls_send: bool
    ktls_receive: bool


def send_welcome(channel: Channel) -> None:
    """Accept the peer."""
    security = channel.security
    flags = _WELCOME
    flags |= _KTLS_SEND if security.ktls_send else 0
    flags |= _KTLS_RECEIVE if security.ktls_receive else 0
    channel.send(_HEAD.pack(_MAGIC, _VERSION, flags, 0))


def send_refusal(channel: Channel, reason: str) -> None:
    """Tell a peer why it is refused; failures to send are ignored."""
    encoded = reason.encode()[:_GREATEST_REASON_BYTES]
    try:
        channel.send(_HEAD.pack(_MAGIC, _VERSION, 0, len(encoded)), encoded)
    except ConnectionLostError:
        # It has closed the connection already.
        return


def receive_greeting(channel: Channel) -> Greeting:
    """Receive the greeting. Raises PeerRefusedError with the reason, ConnectionLostError."""
    try:
        magic, version, flags, reason_size = _HEAD.unpack(channel.receive_exactly(_HEAD.size))
        if magic != _MAGIC or version != _VERSION:
            raise PeerRefusedError("the daemon speaks another version; update the older side")
        if reason_size > _GREATEST_REASON_BYTES:
            raise PeerRefusedError("the daemon's greeting is invalid")
        reason = channel.receive_exactly(reason_size).decode("utf-8", "replace")
    except ConnectionLostError as error:
        raise ConnectionLostError(f"{error}, before the daemon accepted us; see its log") from error
    if not flags & _WELCOME:
        raise PeerRefusedError(f"the daemon refuses us: {reason}")
    return Greeting(bool(flags & _KTLS_SEND), bool(flags & _KTLS_RECEIVE))


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
