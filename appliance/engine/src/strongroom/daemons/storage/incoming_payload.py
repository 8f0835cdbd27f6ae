"""The payload of a frame that is still on its way, taken in pieces to where it belongs.

The peer has time for the frame as a whole, and it runs only while we wait for the peer: a disk that
is slow, or a limit of bandwidth, is not the peer's fault.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from strongroom.daemons.storage.response_writer import Answers
    from strongroom.net.channels.channel import Channel

# What a processor's cache holds between receiving, digesting and writing.
PIECE_BYTES: Final = 256 << 10


class Incoming:
    """`left_bytes` are to come; for the thread of the connection."""

    def __init__(self, channel: Channel, answers: Answers, size_bytes: int) -> None:
        """`answers` has the deadline of the frame, and is paused from here on."""
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
        """Throw away what nobody took."""
        if self.left_bytes:
            scratch = memoryview(bytearray(min(self.left_bytes, PIECE_BYTES)))
            while self.left_bytes:
                self.fill(scratch[: self.left_bytes])
