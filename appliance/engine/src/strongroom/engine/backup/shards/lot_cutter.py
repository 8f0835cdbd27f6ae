"""Cuts the bytes of a large file or a stream into chunks, a lot at a time."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from typing import Final, Protocol

from strongroom.engine.content.chunker import GREATEST_SIZE, Chunker
from strongroom.engine.content.digests import Signature
from strongroom.sources.source import Stream

# Reads bytes of files and streams in order into the buffers that chunks are cut from.


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


# Read at a time, unless a chunk is longer: more of it is no faster, and no longer in the
# processor's cache when it is cut, identified and compressed.
LOT_BYTES: Final = 4 << 20


class LotBuffer:
    """Room for the greatest chunk; it takes memory for LOT_BYTES, unless there is such a chunk."""

    def __init__(self, size_bytes: int) -> None:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        self._memory = mmap.mmap(-1, size_bytes, flags=flags)
        self._view = memoryview(self._memory)

    def view_again(self) -> memoryview:
        """The whole buffer, for the next lot: no one uses what it holds any more."""
        self._memory.madvise(mmap.MADV_DONTNEED, LOT_BYTES)
        return self._view


class LotCutter:
    """Has two buffers in turns; they are allocated for the first large file."""

    def __init__(self) -> None:
        self._buffers: list[LotBuffer] = []
        self._turn = 0

    def lots(
        self, source: ByteSource, chunker: Chunker, signature: Signature | None
    ) -> Iterator[list[memoryview]]:
        """Chunks of `source` in lots; each lot stays valid until the one after the next.

        `signature` gets every byte once. Raises what `source` raises.
        """
        if not self._buffers:
            self._buffers = [LotBuffer(GREATEST_SIZE) for _ in range(2)]
        kept = memoryview(b"")
        while True:
            view = self._buffers[self._turn].view_again()
            filled = len(kept)
            view[:filled] = kept
            lengths: list[int] = []
            for room in (LOT_BYTES, GREATEST_SIZE):
                before = filled
                filled = source.fill(view[:room], filled)
                if signature is not None:
                    signature.update(view[before:filled])
                lengths = chunker.cut(view[:filled], source.is_at_end)
                if lengths or source.is_at_end:
                    break
            if not filled:
                return
            chunks = []
            start = 0
            for length in lengths:
                chunks.append(view[start : start + length])
                start += length
            # The next lot uses the other buffer; this one is free again after that.
            self._turn ^= 1
            yield chunks
            kept = view[start:filled]
            if source.is_at_end and not kept:
                return
