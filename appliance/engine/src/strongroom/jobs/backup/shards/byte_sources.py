"""Reads bytes of files and streams in order into the buffers that chunks are cut from."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from strongroom.sources.source import Stream


class ByteSource(Protocol):
    """Reads bytes in order into buffers."""

    is_at_end: bool

    def fill(self, view: memoryview, filled: int) -> int:
        """Fill `view` from `filled` on as far as there is data; returns how far that was."""


class StreamReader:
    """Fills buffers from a stream."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self.is_at_end = False

    def fill(self, view: memoryview, filled: int) -> int:
        """Fill `view` from `filled` on; short only at the end."""
        while filled < len(view):
            count = self._stream.readinto(view[filled:])
            if not count:
                self.is_at_end = True
                break
            filled += count
        return filled


class SegmentReader:
    """Fills buffers with the bytes of several ranges of a file, one after the other."""

    def __init__(self, fd: int, segments: list[tuple[int, int]]) -> None:
        self._fd = fd
        self._segments = segments
        self._next = 0
        self._position = segments[0][0] if segments else 0
        self._left = segments[0][1] if segments else 0
        self.is_at_end = not segments

    def fill(self, view: memoryview, filled: int) -> int:
        """Fill `view` from `filled` on as far as it goes; returns how far that was."""
        while filled < len(view) and not self.is_at_end:
            want = min(len(view) - filled, self._left)
            count = os.preadv(self._fd, [view[filled : filled + want]], self._position)
            filled += count
            self._position += count
            self._left -= count
            if not count:  # the file is shorter than expected
                self.is_at_end = True
            elif not self._left:
                self._next += 1
                if self._next == len(self._segments):
                    self.is_at_end = True
                else:
                    self._position, self._left = self._segments[self._next]
        return filled


def first_bytes(extents: list[tuple[int, int]], wanted: int) -> list[tuple[int, int]]:
    """The first `wanted` bytes of the extents."""
    kept = []
    for start, length in extents:
        if not wanted:
            break
        kept.append((start, min(length, wanted)))
        wanted -= kept[-1][1]
    return kept
