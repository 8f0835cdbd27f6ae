"""Writes the content of files: completely, in parts, with holes, or only what differs.

A row's content is its parts joined; a sparse file's parts joined are its extents joined, and what
lies between the extents is a hole. `Layout` maps content offsets to file offsets.

The source verifies parts against their ids before a byte of them is written, so a file never
holds bytes that the snapshot does not.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Iterator, Sequence
from typing import Final, Protocol

from strongroom.base.errors import DamageError, OperatingSystemError
from strongroom.engine.rows.views import RowView

Buffer = bytes | memoryview

_KEEP_SIZE_AND_PUNCH_HOLE: Final = 0x01 | 0x02  # FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE
_ZEROS: Final = bytes(1 << 16)
_COMPARE_BYTES: Final = 1 << 20
_TARGET_IS_DEAD: Final = {
    errno.ENOSPC: "free space there, or restore elsewhere",
    errno.EDQUOT: "raise the quota, or restore elsewhere",
    errno.EROFS: "mount it writable, or restore elsewhere",
}


class ContentSource(Protocol):
    """Where parts come from."""

    def chunk(self, block_id: bytes, slot: int) -> Buffer:
        """The verified bytes of a part. Raises DamageError."""

    def length(self, block_id: bytes, slot: int) -> int:
        """The length of a part, without reading it. Raises DamageError."""

    def is_chunk(self, block_id: bytes, slot: int, data: bytes | memoryview) -> bool:
        """Whether `data` is the part, without reading that. Raises DamageError."""


class Layout:
    """Where content goes in a file of `size_bytes`; `extents` only of a sparse one."""

    __slots__ = ("content_bytes", "extents", "size_bytes")

    def __init__(self, size_bytes: int, extents: Sequence[tuple[int, int]] | None) -> None:
        self.size_bytes = size_bytes
        self.extents = None if extents is None else list(extents)
        self.content_bytes = size_bytes if extents is None else sum(size for _, size in extents)

    def pieces(self, offset: int, length: int) -> Iterator[tuple[int, int]]:
        """(file offset, length) of `length` bytes of content from `offset` on."""
        if self.extents is None:
            yield offset, length
            return
        for start, size in self.extents:
            if offset < size and length:
                piece = min(length, size - offset)
                yield start + offset, piece
                length -= piece
                offset = 0
            else:
                offset -= min(offset, size)

    def holes(self) -> Iterator[tuple[int, int]]:
        """(offset, length) of the holes."""
        position = 0
        for start, size in self.extents or [(0, self.size_bytes)]:
            if start > position:
                yield position, start - position
            position = start + size
        if position < self.size_bytes:
            yield position, self.size_bytes - position


def layout_of(row: RowView) -> Layout:
    """The layout of a regular file. Raises DamageError when its extents are invalid."""
    if row.extents is not None:
        position = 0
        for start, size in row.extents:
            if start < position or size <= 0:
                raise DamageError("its data extents overlap or are out of order")
            position = start + size
        if position > row.size:
            raise DamageError("its data extents reach beyond its end")
    elif row.size < 0:
        raise DamageError("its size is negative")
    return Layout(row.size, row.extents)


def part_lengths(row: RowView, source: ContentSource, layout: Layout) -> list[int]:
    """The length of each part; they must add up to the layout's content.

    Raises DamageError when one is unknown or they do not.
    """
    lengths = [source.length(block_id, slot) for block_id, slot in row.parts]
    check_length(sum(lengths), layout)
    return lengths


def check_length(content_bytes: int, layout: Layout) -> None:
    """Reject content whose length differs from the row's. Raises DamageError."""
    expected = layout.content_bytes
    if content_bytes != expected:
        raise DamageError(f"{content_bytes} bytes of content are stored instead of {expected}")


def write_all(fd: int, data: Buffer) -> None:
    """Write all of `data` at the descriptor's position. Raises OSError."""
    written = os.write(fd, data)
    while written < len(data):
        written += os.write(fd, memoryview(data)[written:])


def write_at(fd: int, data: Buffer, offset: int) -> None:
    """Write all of `data` at `offset`. Raises OSError."""
    written = os.pwrite(fd, data, offset)
    while written < len(data):
        written += os.pwrite(fd, memoryview(data)[written:], offset + written)


def write_parts(
    fd: int, parts: Sequence[tuple[bytes, int]], offset: int, layout: Layout, source: ContentSource
) -> int:
    """Write consecutive parts, the first at content offset `offset`; returns bytes written.

    Raises OSError, DamageError.
    """
    start = offset
    for block_id, slot in parts:
        data = memoryview(source.chunk(block_id, slot))
        done = 0
        for file_offset, length in layout.pieces(offset, len(data)):
            write_at(fd, data[done : done + length], file_offset)
            done += length
        offset += len(data)
    return offset - start


def write_differing_parts(
    fd: int, parts: Sequence[tuple[bytes, int]], offset: int, layout: Layout, source: ContentSource
) -> int:
    """Like `write_parts` over a file with content: only parts that differ are read and written.

    Returns bytes written.
    """
    written = 0
    for block_id, slot in parts:
        length = source.length(block_id, slot)
        present = b"".join(
            [os.pread(fd, size, position) for position, size in layout.pieces(offset, length)]
        )
        if not source.is_chunk(block_id, slot, present):
            written += write_parts(fd, [(block_id, slot)], offset, layout, source)
        offset += length
    return written


def punch_holes(fd: int, layout: Layout) -> None:
    """Punch holes outside the extents of a file with content. Raises OSError."""
    for offset, length in layout.holes():
        if not _has_data(fd, offset, length):
            continue
        if not _punch(fd, offset, length):
            _write_zeros(fd, offset, length)


def content_is(fd: int, row: RowView, layout: Layout, source: ContentSource) -> bool:
    """Whether an open file holds exactly the row's content and nothing but zeros in its holes."""
    if os.fstat(fd).st_size != layout.size_bytes:
        return False
    offset = 0
    for block_id, slot in row.parts:
        length = source.length(block_id, slot)
        present = b"".join(
            [os.pread(fd, size, position) for position, size in layout.pieces(offset, length)]
        )
        if not source.is_chunk(block_id, slot, present):
            return False
        offset += length
    return all(_is_zero(fd, start, length) for start, length in _outside(layout))


def refuse_dead_target(error: OSError) -> None:
    """Raise OperatingSystemError if `error` means that no further file can be written."""
    advice = _TARGET_IS_DEAD.get(error.errno or 0)
    if advice is not None:
        reason = error.strerror or "it cannot be written"
        raise OperatingSystemError(
            f"the target of the restore: {reason}; {advice}, then run the same command again, "
            "it continues where it stopped"
        ) from error


def _outside(layout: Layout) -> Iterator[tuple[int, int]]:
    return layout.holes() if layout.extents is not None else iter(())


def _is_zero(fd: int, offset: int, length: int) -> bool:
    end = offset + length
    while offset < end:
        try:
            offset = os.lseek(fd, offset, os.SEEK_DATA)
        except OSError as error:
            return error.errno == errno.ENXIO
        data = os.pread(fd, min(_COMPARE_BYTES, end - offset), offset) if offset < end else b""
        if data.count(0) != len(data):
            return False
        offset += len(data) or end
    return True


def _has_data(fd: int, offset: int, length: int) -> bool:
    try:
        return os.lseek(fd, offset, os.SEEK_DATA) < offset + length
    except OSError as error:
        return error.errno != errno.ENXIO


def _punch(fd: int, offset: int, length: int) -> bool:
    fallocate = ctypes.CDLL(None, use_errno=True).fallocate
    fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    answer: int = fallocate(fd, _KEEP_SIZE_AND_PUNCH_HOLE, offset, length)
    return answer == 0


def _write_zeros(fd: int, offset: int, length: int) -> None:
    end = offset + length
    while offset < end:
        size = min(len(_ZEROS), end - offset)
        write_at(fd, memoryview(_ZEROS)[:size], offset)
        offset += size
