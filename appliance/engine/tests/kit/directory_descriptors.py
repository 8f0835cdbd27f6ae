"""Working below a directory descriptor: no path is ever joined, so none is ever too long.

Extended attributes have no `dir_fd` form; they are reached as /proc/self/fd/N/NAME, which stays
short however deep the directory lies and does not follow NAME when told not to.
"""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager

GET_FLAGS = 0x80086601
SET_FLAGS = 0x40086602
IMMUTABLE = 0x10
APPEND_ONLY = 0x20
PATH_MAX_BYTES = 4096

_OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def open_directory(name: bytes, parent: int | None = None) -> int:
    """A descriptor of the directory `name` in `parent` (or of the path `name`)."""
    return os.open(name, _OPEN_DIRECTORY, dir_fd=parent)


def make_directory(name: bytes, parent: int, mode: int = 0o755) -> int:
    """Make the directory `name` in `parent` and open it; the caller closes it."""
    os.mkdir(name, mode, dir_fd=parent)
    return open_directory(name, parent)


@contextmanager
def new_directory(name: bytes, parent: int, mode: int = 0o755) -> Iterator[int]:
    """A new directory `name` in `parent`, open for the length of the block."""
    directory = make_directory(name, parent, mode)
    try:
        yield directory
    finally:
        os.close(directory)


def write_file(name: bytes, directory: int, content: bytes = b"", mode: int = 0o644) -> None:
    """A new regular file `name` in `directory`."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    descriptor = os.open(name, flags, mode, dir_fd=directory)
    try:
        remaining = memoryview(content)
        while remaining:
            remaining = remaining[os.write(descriptor, remaining) :]
    finally:
        os.close(descriptor)


def short_path(name: bytes, directory: int) -> bytes:
    """A path of `name` in `directory` for calls that take no descriptor."""
    return b"/proc/self/fd/%d/%s" % (directory, name)


def get_flags(descriptor: int) -> int:
    """The inode flags that chattr shows; OSError where the file system keeps none."""
    answer: bytes = fcntl.ioctl(descriptor, GET_FLAGS, bytes(8))
    return int(struct.unpack("=I", answer[:4])[0])


def set_flags(descriptor: int, flags: int) -> None:
    """Set the inode flags that chattr sets; OSError where refused."""
    fcntl.ioctl(descriptor, SET_FLAGS, struct.pack("=Q", flags))


@contextmanager
def open_inode(name: bytes, directory: int | None = None) -> Iterator[int]:
    """The regular file or directory `name` (in `directory`, or as a path), open for reading.

    Reading is enough to ask and set what hangs on the inode.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(name, flags, dir_fd=directory)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
