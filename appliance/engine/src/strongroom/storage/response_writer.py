"""Writes answers to a client, and keeps the deadline for the peer.

`deadline` is when the peer must have done its part, None while the daemon works; the connection's
thread writes it, the daemon's watch thread reads it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from strongroom.base import clock
from strongroom.base.errors import ConnectionLostError, StrongroomError
from strongroom.engine.stores.servable import OutgoingObject
from strongroom.net.channels.channel import Channel
from strongroom.net.storage.frames import FLAG_MORE, encode_start
from strongroom.net.storage.protocol import LARGEST_PART_BYTES, FrameType, RequestFailure, encode
from strongroom.storage.settings import StorageLimits

# Answers this small are sent by copying: that is one system call instead of three.
_COPIED_BYTES: Final = 64 << 10
_NOISE_BYTES: Final = 256 << 10


class ResponseWriter:
    """Answers to the request `request_id`, for the thread of the connection."""

    def __init__(self, channel: Channel, limits: StorageLimits) -> None:
        self._channel = channel
        self._limits = limits
        self.request_id = 0
        self.deadline: float | None = None
        self._left_seconds = 0.0

    def send(self, value: object) -> None:
        """Answer that the request was done, with its result."""
        self.allow_bytes(0)
        self._channel.send(encode_start(FrameType.OK, 0, self.request_id, encode(value), 0))

    def fail(self, error: StrongroomError) -> None:
        """Answer why the request was not done."""
        self.allow_bytes(0)
        header = encode(RequestFailure(error.error_id, str(error)[:4096]))
        self._channel.send(encode_start(FrameType.FAILED, 0, self.request_id, header, 0))

    def send_part(self, data: bytes) -> None:
        """Send data that is part of the answer."""
        for at in range(0, len(data), LARGEST_PART_BYTES):
            part = memoryview(data)[at : at + LARGEST_PART_BYTES]
            self.allow_bytes(len(part))
            self._channel.send(self._start(len(part), has_more=at + len(part) < len(data)), part)

    def send_noise(self, size_bytes: int) -> None:
        """Send bytes that no line on the way compresses, in one frame, of which little is held."""
        noise = memoryview(clock.random_bytes(min(size_bytes, _NOISE_BYTES)))
        self.allow_bytes(size_bytes)
        self._channel.send(self._start(size_bytes, has_more=False))
        for sent in range(0, size_bytes, _NOISE_BYTES):
            self._channel.send(noise[: size_bytes - sent])

    def send_object(
        self,
        source: OutgoingObject,
        offset: int,
        length: int,
        take_turn: Callable[[int], None],
    ) -> None:
        """Send a part of an object, by the kernel where that is possible.

        `take_turn` is called with the size of each piece before it is sent.
        """
        descriptor = source.descriptor
        try:
            while length:
                count = min(length, LARGEST_PART_BYTES)
                self.deadline = None
                take_turn(count)
                self.allow_bytes(count)
                start = self._start(count, has_more=count < length)
                if descriptor is None or count <= _COPIED_BYTES:
                    self._channel.send(start, source.read(offset, count))
                else:
                    self._channel.send(start)
                    self._channel.send_file(descriptor, offset, count)
                offset += count
                length -= count
        except OSError as error:
            # A frame may have been started, so no error can be sent any more.
            raise ConnectionLostError(f"an object could not be read: {error}") from error

    def allow(self, seconds: float) -> None:
        """Give the peer this much time from now."""
        self.deadline = clock.elapsed_seconds() + seconds

    def allow_bytes(self, size_bytes: int) -> None:
        """Give the peer as long as this many bytes may take, in either direction."""
        limits = self._limits
        self.allow(limits.stall_seconds + size_bytes / limits.slowest_bytes_per_second)

    def pause(self) -> None:
        """The daemon works now: the rest of the peer's time is kept for `resume`."""
        assert self.deadline is not None
        self._left_seconds = self.deadline - clock.elapsed_seconds()
        self.deadline = None

    def resume(self) -> None:
        """The peer's time runs again, with what was left at `pause`."""
        self.deadline = clock.elapsed_seconds() + self._left_seconds

    def _start(self, size: int, *, has_more: bool) -> bytes:
        flags = FLAG_MORE if has_more else 0
        return encode_start(FrameType.PART, flags, self.request_id, b"", size)
