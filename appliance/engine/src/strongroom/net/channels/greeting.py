"""A daemon's first message once it has authenticated the peer: welcome, or the reason for refusal.

    magic "SRHI" | version u8 | flags u8 | reason length u16 | reason (UTF-8)
    flags: 1 welcome, 2 the daemon's kernel encrypts what it sends, 4 what it receives

It is sent inside the protected channel, so a refusal is authentic. It also keeps both sides from
sending before both have finished the handshake; otherwise OpenSSL could not hand the receiving
direction to the kernel.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

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
