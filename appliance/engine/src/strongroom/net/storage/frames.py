"""Frames: the units of the protocol between a storage daemon and its clients.

    length u32 | type u8 | flags u8 | request id u32 | header length u16 | header | payload

Integers are little endian; `length` counts what follows it. The header is the msgpack of the
type's structure (strongroom.net.storage.protocol), the payload bytes of an object. Lengths are
checked against LARGEST_FRAME_BYTES before use, so a peer can make us hold at most one frame.
Anything invalid raises ProtocolError, and the connection can't be used any more.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple, Protocol

from typing_extensions import Buffer

from strongroom.base.errors import ProtocolError

LARGEST_FRAME_BYTES: Final = 9 << 20
LARGEST_HEADER_BYTES: Final = 0xFFFF
# More frames of the same answer follow; or more requests of the same series.
FLAG_MORE: Final = 1

_START = struct.Struct("<IBBIH")
START_SIZE: Final = _START.size
# The bytes that `length` counts besides header and payload.
_KEPT_BYTES: Final = 256 << 10
_COUNTED: Final = START_SIZE - 4


class FrameStart(NamedTuple):
    """The fixed part of a frame; sizes in bytes."""

    type: int
    flags: int
    request_id: int
    header_size: int
    payload_size: int


class Frame(NamedTuple):
    """A whole frame; `payload` is valid until the next one is read."""

    type: int
    flags: int
    request_id: int
    header: bytes
    payload: memoryview

    @property
    def has_more(self) -> bool:
        """Whether another frame of the same answer, or series of requests, follows."""
        return bool(self.flags & FLAG_MORE)


class Receiver(Protocol):
    """The part of a channel that reading frames needs."""

    def receive_exactly(self, size: int) -> bytes:
        """`size` bytes."""

    def receive_into(self, view: memoryview) -> None:
        """Fill `view`."""


def encode_start(
    frame_type: int, flags: int, request_id: int, header: bytes, payload_size: int
) -> bytes:
    """Fixed part and header; the payload follows. ValueError when it is too large."""
    length = _COUNTED + len(header) + payload_size
    if len(header) > LARGEST_HEADER_BYTES or length > LARGEST_FRAME_BYTES:
        raise ValueError(f"a frame of {len(header)} + {payload_size} bytes can't be sent")
    return _START.pack(length, frame_type, flags, request_id, len(header)) + header


def decode_start(raw: Buffer) -> FrameStart:
    """The fixed part, START_SIZE bytes. Raises ProtocolError."""
    length, frame_type, flags, request_id, header_size = _START.unpack(raw)
    if length > LARGEST_FRAME_BYTES:
        raise ProtocolError(
            f"a frame of {length} bytes was announced, and {LARGEST_FRAME_BYTES} is the limit"
        )
    payload_size = length - _COUNTED - header_size
    if payload_size < 0:
        raise ProtocolError(f"a frame of {length} bytes can't hold a header of {header_size}")
    if flags & ~FLAG_MORE:
        raise ProtocolError(f"a frame has unknown flags ({flags:#x})")
    return FrameStart(frame_type, flags, request_id, header_size, payload_size)


class FrameReader:
    """Reads frames of a channel, small ones into one buffer that grows; for one thread."""

    def __init__(self, channel: Receiver) -> None:
        self._channel = channel
        self._buffer = bytearray(4096)

    def start(self) -> FrameStart:
        """Wait for a frame. Raises ProtocolError, ConnectionLostError."""
        return decode_start(self._channel.receive_exactly(START_SIZE))

    def head(self, start: FrameStart) -> Frame:
        """The frame that `start` announced without its payload, which the caller receives."""
        header = self._channel.receive_exactly(start.header_size) if start.header_size else b""
        return Frame(start.type, start.flags, start.request_id, header, memoryview(b""))

    def rest(self, start: FrameStart) -> Frame:
        """Header and payload of the frame that `start` announced."""
        size = start.header_size + start.payload_size
        buffer = self._buffer
        if size > len(buffer):
            # The old buffer may still be in use. A large one is not kept: its connection may idle.
            buffer = bytearray(size)
            if size <= _KEPT_BYTES:
                self._buffer = buffer
        view = memoryview(buffer)[:size]
        if size:
            self._channel.receive_into(view)
        header = bytes(view[: start.header_size])
        payload = view[start.header_size :]
        return Frame(start.type, start.flags, start.request_id, header, payload)
