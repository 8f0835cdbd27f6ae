"""The first thing a daemon says on a connection once it knows who is there: welcome, or why not.

    magic "SRHI" | version u8 | flags u8 | reason length u16 | reason (UTF-8)
    flags: 1 welcome, 2 the daemon's kernel encrypts what it sends, 4 what it receives

It travels inside the protected channel, so a refusal is the daemon's own word. It also keeps both
sides from sending before both have finished the handshake, without which OpenSSL could not hand
the receiving direction to the kernel.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from strongroom.errors import ConnectionLostError, PeerRefusedError

if TYPE_CHECKING:
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
    """Let the peer in."""
    security = channel.security
    flags = _WELCOME
    flags |= _KTLS_SEND if security.ktls_send else 0
    flags |= _KTLS_RECEIVE if security.ktls_receive else 0
    channel.send(_HEAD.pack(_MAGIC, _VERSION, flags, 0))


def send_refusal(channel: Channel, reason: str) -> None:
    """Tell a peer that it may not stay, and why; whether it listens does not matter."""
    encoded = reason.encode()[:_GREATEST_REASON_BYTES]
    try:
        channel.send(_HEAD.pack(_MAGIC, _VERSION, 0, len(encoded)), encoded)
    except ConnectionLostError:
        # It has gone already: nothing more is owed to it.
        return


def receive_greeting(channel: Channel) -> Greeting:
    """Wait for the daemon's word. Raises PeerRefusedError with its reason, ConnectionLostError."""
    try:
        magic, version, flags, reason_size = _HEAD.unpack(channel.receive_exactly(_HEAD.size))
        if magic != _MAGIC or version != _VERSION:
            raise PeerRefusedError("the daemon speaks another version; update the older side")
        if reason_size > _GREATEST_REASON_BYTES:
            raise PeerRefusedError("the daemon's greeting is none")
        reason = channel.receive_exactly(reason_size).decode("utf-8", "replace")
    except ConnectionLostError as error:
        raise ConnectionLostError(f"{error}, before the daemon let us in; see its log") from error
    if not flags & _WELCOME:
        raise PeerRefusedError(f"the daemon refuses us: {reason}")
    return Greeting(bool(flags & _KTLS_SEND), bool(flags & _KTLS_RECEIVE))
