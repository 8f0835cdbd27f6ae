"""Cuts the bytes of a large file or a stream into chunks, a lot at a time."""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING, Final

from strongroom.content.chunker import GREATEST_SIZE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strongroom.content.chunker import Chunker
    from strongroom.content.digests import Signature
    from strongroom.jobs.backup.shards.byte_sources import ByteSource


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
        """The whole buffer, for the next lot: nobody uses what it holds any more."""
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
