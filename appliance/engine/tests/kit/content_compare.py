"""Differences of regular files: where they hold data, and which bytes.

Holes are never read: a file of a terabyte with one byte in it takes one read.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator

from kit.difference import Difference
from kit.directory_descriptors import open_inode

READ_BYTES = 1 << 20

Extent = tuple[int, int]


def data_extents(descriptor: int) -> list[Extent]:
    """(begin, end) of each run of data, as SEEK_DATA and SEEK_HOLE tell, in order."""
    size_bytes = os.fstat(descriptor).st_size
    extents: list[Extent] = []
    offset = 0
    while offset < size_bytes:
        try:
            begin = os.lseek(descriptor, offset, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                break
            raise
        offset = min(os.lseek(descriptor, begin, os.SEEK_HOLE), size_bytes)
        extents.append((begin, offset))
    return extents


def _union(first: list[Extent], second: list[Extent]) -> list[Extent]:
    joined: list[Extent] = []
    for begin, end in sorted(first + second):
        if joined and begin <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((begin, end))
    return joined


def _read_fully(descriptor: int, length: int, offset: int) -> bytes:
    pieces = []
    while length:
        piece = os.pread(descriptor, length, offset)
        if not piece:
            break
        pieces.append(piece)
        offset += len(piece)
        length -= len(piece)
    return b"".join(pieces)


def _first_unequal(expected: int, actual: int, extents: list[Extent]) -> int | None:
    """Offset of the first byte that differs within `extents`, or None."""
    for begin, end in extents:
        for offset in range(begin, end, READ_BYTES):
            length = min(READ_BYTES, end - offset)
            one = _read_fully(expected, length, offset)
            other = _read_fully(actual, length, offset)
            if one != other:
                shorter = min(len(one), len(other))
                same = next((i for i in range(shorter) if one[i] != other[i]), shorter)
                return offset + same
    return None


def _map_text(extents: list[Extent]) -> str:
    text = " ".join(f"{begin}-{end}" for begin, end in extents[:6])
    return f"data at {text or 'no place'}{' ...' if len(extents) > 6 else ''}"


def content_differences(
    path: bytes, name: bytes, expected: int, actual: int
) -> Iterator[Difference]:
    """Differences of bytes and of holes of `name` in the directories `expected` and `actual`."""
    try:
        with open_inode(name, expected) as one, open_inode(name, actual) as other:
            maps = data_extents(one), data_extents(other)
            if maps[0] != maps[1]:
                yield Difference(path, "holes", _map_text(maps[0]), _map_text(maps[1]))
            unequal = _first_unequal(one, other, _union(*maps))
            if unequal is not None:
                yield Difference(path, "content", "the same bytes", f"others from offset {unequal}")
    except PermissionError as error:
        yield Difference(path, "unreadable", "content", error.strerror or "refused")
