"""The payload of a frame that is still arriving, received in pieces into its destination.

The peer has a deadline for the frame as a whole, which runs only while the daemon waits for the
peer: time spent on a slow disk or a bandwidth limit does not count.
"""

from __future__ import annotations

from typing import Final

from strongroom.net.channels.channel import Channel
from strongroom.storage.response_writer import ResponseWriter

# Fits into a processor's cache between receiving, digesting and writing.
PIECE_BYTES: Final = 256 << 10


class Incoming:
    """`left_bytes` have not arrived yet; for the thread of the connection."""

    def __init__(self, channel: Channel, answers: ResponseWriter, size_bytes: int) -> None:
        """`answers` has the deadline of the frame, which is paused from here on."""
        self._channel = channel
        self._answers = answers
        self.left_bytes = size_bytes
        answers.pause()

    def fill(self, view: memoryview) -> None:
        """Fill `view`, of `left_bytes` at most. Raises what receiving raises."""
        self._answers.resume()
        self._channel.receive_into(view)
        self._answers.pause()
        self.left_bytes -= len(view)

    def skip(self) -> None:
        """Discard what was not received."""
        if self.left_bytes:
            scratch = memoryview(bytearray(min(self.left_bytes, PIECE_BYTES)))
            while self.left_bytes:
                self.fill(scratch[: self.left_bytes])
