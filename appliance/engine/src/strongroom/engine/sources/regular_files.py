"""Open and read regular files that may change, grow, shrink or be replaced meanwhile.

Names are relative to the working directory. Nothing follows a symbolic link, and nothing blocks:
a FIFO in the place of a file opens at once and is rejected by its type. The caller decides
whether a file was stable from the status taken after the last read.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import Final

_BASE_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_WILL_NEED: Final = os.POSIX_FADV_WILLNEED
_SEQUENTIAL: Final = os.POSIX_FADV_SEQUENTIAL
_BLOCK_BYTES: Final = 512  # unit of st_blocks, see stat(2)


class NotRegularError(OSError):
    """A former regular file is something else now."""


class FileOpener:
    """Opens files without changing their access time if permitted.

    O_NOATIME is refused for files of other owners; after the first refusal it is not tried again,
    which saves a call a file for unprivileged users.
    """

    def __init__(self) -> None:
        self._flags = _BASE_FLAGS | os.O_NOATIME

    def open(self, name: bytes) -> int:
        """A descriptor for reading. Raises OSError."""
        try:
            return os.open(name, self._flags)
        except PermissionError as error:
            if error.errno != errno.EPERM or not self._flags & os.O_NOATIME:
                raise
            self._flags = _BASE_FLAGS
            return os.open(name, self._flags)

    def open_ahead(self, name: bytes, whole: bool) -> int:
        """Open a file that will be read soon; with `whole`, have the kernel read it ahead.

        A file that is not cached is then read without waiting. Raises OSError.
        """
        try:
            fd = os.open(name, self._flags)
        except PermissionError:
            fd = self.open(name)
        try:
            os.posix_fadvise(fd, 0, 0, _WILL_NEED if whole else _SEQUENTIAL)
        except OSError:
            return fd  # a FIFO in a file's place cannot be advised on
        return fd


def required_regular(status: os.stat_result) -> None:
    """Raises NotRegularError unless the status is that of a regular file."""
    if not stat.S_ISREG(status.st_mode):
        raise NotRegularError(errno.EINVAL, "it is no longer a regular file")


def may_be_sparse(status: os.stat_result) -> bool:
    """Whether the file takes less space than its size; only then are its holes searched for."""
    return status.st_blocks * _BLOCK_BYTES < status.st_size


def data_extents(fd: int, end_byte: int, first_byte: int = 0) -> list[tuple[int, int]] | None:
    """(offset, length) of the data in a range of a file, in order; None when it has no hole.

    File systems that cannot tell report the whole file as data. Raises OSError.
    """
    extents: list[tuple[int, int]] = []
    position = first_byte
    while position < end_byte:
        try:
            start = os.lseek(fd, position, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # nothing but a hole up to the end
                break
            if error.errno == errno.EINVAL:
                return None
            raise
        if start >= end_byte:
            break
        end = min(os.lseek(fd, start, os.SEEK_HOLE), end_byte)
        if end <= start:  # the file shrank meanwhile
            break
        extents.append((start, end - start))
        position = end
    if extents == [(first_byte, end_byte - first_byte)]:
        return None
    return extents
