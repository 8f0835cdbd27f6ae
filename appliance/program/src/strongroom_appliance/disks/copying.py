"""Copying the appliance's image to a disk, whole and checked.

The image is a raw disk, compressed with zstd or not. Its digest is compared while it is read, and
the disk is read again afterwards. Where the image is empty the disk is asked to become so;
zeros are written if it cannot. The partition table is written last: until all else is right the
disk has none, so a power cut leaves a disk that does not boot, and none that boots half an image.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import struct
from collections.abc import Callable
from contextlib import ExitStack
from typing import IO, Final

import zstandard

from strongroom.base.errors import DamageError, StoreError, UsageError
from strongroom.base.printable import printable

_PIECE_BYTES: Final = 4 << 20
_HEAD_BYTES: Final = 1 << 20
_REPORTED_EVERY_BYTES: Final = 256 << 20
_NOTHING: Final = bytes(_PIECE_BYTES)
# Of linux/fs.h.
_BLKZEROOUT: Final = 0x127F


def expected_digest(image: str) -> str:
    """What FILE.sha256 beside the image says. Raises UsageError."""
    path = f"{image}.sha256"
    try:
        with open(path, encoding="ascii") as file:
            word = file.read(4096).split()[0]
    except (OSError, IndexError, UnicodeDecodeError) as error:
        raise UsageError(f"{printable(path)} cannot be read; it belongs to the image") from error
    if len(word) != 64 or set(word) - set("0123456789abcdef"):
        raise UsageError(f"{printable(path)} has no SHA-256; the medium may be damaged")
    return word


def copy_image(image: str, device: str, say: Callable[[str], None]) -> None:
    """Write the image to the disk. Raises DamageError, UsageError, StoreError."""
    try:
        _copy(image, device, say)
    except zstandard.ZstdError as error:
        raise _damaged(image) from error


def _damaged(image: str) -> DamageError:
    return DamageError(
        f"{printable(image)} does not match its SHA-256; the medium is damaged, and the disk does "
        "not boot"
    )


def _copy(image: str, device: str, say: Callable[[str], None]) -> None:
    digest = expected_digest(image)
    size = os.stat(device).st_size or _size(device)
    content = hashlib.sha256()
    written = 0
    with ExitStack() as stack:
        packed = _Digested(stack.enter_context(open(image, "rb")), image)
        source = packed if not image.endswith(".zst") else stack.enter_context(
            zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=True)  # type: ignore[arg-type]
        )  # fmt: skip
        disk = stack.enter_context(open(device, "r+b", buffering=0))
        _put(disk, 0, bytes(_HEAD_BYTES))
        head = _exactly(source, _HEAD_BYTES)
        content.update(head)
        written = len(head)
        empty: list[bool] = []
        while piece := _exactly(source, _PIECE_BYTES):
            if written + len(piece) > size:
                raise UsageError(f"{device} is smaller than the image; it does not boot")
            empty.append(piece == _NOTHING[: len(piece)])
            if empty[-1]:
                _put_zeros(disk, written, piece)
            else:
                _put(disk, written, piece)
                content.update(piece)
            if (written + len(piece)) // _REPORTED_EVERY_BYTES > written // _REPORTED_EVERY_BYTES:
                say(f"  {(written + len(piece)) >> 20} MiB")
            written += len(piece)
        packed.drain()
        if packed.digest.hexdigest() != digest:
            raise _damaged(image)
        os.fsync(disk.fileno())
        _compare(disk, head, written, content.hexdigest(), empty, device)
        _put(disk, 0, head)
        os.fsync(disk.fileno())
    say(f"copied {written >> 20} MiB to {device}")


def _compare(
    disk: IO[bytes], head: bytes, size: int, digest: str, empty: list[bool], device: str
) -> None:
    """Read the disk again, past what the kernel remembers. digest: of all pieces that hold any."""
    os.posix_fadvise(disk.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    found = hashlib.sha256(head)
    position = len(head)
    disk.seek(position)
    is_kept = True
    for is_empty in empty:
        piece = _exactly(disk, min(_PIECE_BYTES, size - position))
        if is_empty:
            is_kept = is_kept and piece == _NOTHING[: size - position]
        else:
            found.update(piece)
        position += len(piece)
    if not is_kept or found.hexdigest() != digest:
        raise StoreError(f"{device} loses data that is written to it; use another disk")


def _put_zeros(disk: IO[bytes], position: int, zeros: bytes) -> None:
    try:
        fcntl.ioctl(disk.fileno(), _BLKZEROOUT, struct.pack("QQ", position, len(zeros)))
    except OSError:
        _put(disk, position, zeros)


def _put(disk: IO[bytes], position: int, data: bytes) -> None:
    disk.seek(position)
    view = memoryview(data)
    while view:
        view = view[disk.write(view) :]


def _exactly(source: IO[bytes] | _Digested, size: int) -> bytes:
    pieces = []
    while size > 0 and (piece := source.read(size)):
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def _size(device: str) -> int:
    with open(device, "rb") as disk:
        return disk.seek(0, os.SEEK_END)


class _Digested:
    """A file that is digested while it is read."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        self._file = file
        self._name = name
        self.digest = hashlib.sha256()

    def read(self, size: int) -> bytes:
        try:
            data = self._file.read(size)
        except OSError as error:
            raise _damaged(self._name) from error
        self.digest.update(data)
        return data

    def drain(self) -> None:
        """Read what the decompressor did not need."""
        while self.read(_PIECE_BYTES):
            pass
