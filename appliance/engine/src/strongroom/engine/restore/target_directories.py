"""Directories of the target, reached step by step, so that nothing outside is ever touched.

A path is walked from the target's descriptor, one name at a time, with O_NOFOLLOW: a symbolic
link in the place of a directory (even one planted while we work) is an error, never followed,
and paths may be longer than PATH_MAX. Names are checked before they get here (`check_names`): no
"/", no NUL, no ".", no "..", none empty. Everything else works on names relative to the working
directory, which a restoring process owns.

A directory is *private* if this restore created it and no one else can have been in it: it
belongs to us and has mode 0700, which it keeps until everything in it is done. Only there may a
name we created be addressed by name again. Anywhere else `pinned` opens the inode itself and
verifies that it is the one we created: of the right type and with a single name, so that it
cannot be an outside file that was linked in meanwhile.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from strongroom.base.clock import random_bytes
from strongroom.base.errors import DamageError

ALL_OPEN_STEPS: Final = 64
OPEN_STEP: Final = 32
CLOSED: Final = -1
PRIVATE_MODE: Final = stat.S_IFDIR | 0o700
_STEP: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PIN: Final = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_FORBIDDEN: Final = frozenset((b"", b".", b".."))


def check_names(names: Sequence[bytes], joined: bytes) -> None:
    """Reject names that could lead out of their directory. Raises DamageError."""
    if b"/" in joined or not _FORBIDDEN.isdisjoint(names):
        raise DamageError("a directory of the snapshot holds names that no directory can hold")


def check_path(path: bytes) -> None:
    """Reject a path that could lead out of the target. Raises DamageError."""
    if path and (b"\0" in path or not _FORBIDDEN.isdisjoint(path.split(b"/"))):
        raise DamageError("the snapshot holds a path that no file system can hold")


def temporary_name() -> bytes:
    """A temporary name for what will replace an entry by rename."""
    return b".strongroom-" + random_bytes(8).hex().encode()


class TargetDirectories:
    """Opens directories below the target; keeps those on the path to the last one open.

    Of a deep path only the first ALL_OPEN_STEPS, then every OPEN_STEP-th and the last stay open.
    For one thread. `enter` makes a directory the working directory.
    """

    def __init__(self, root_fd: int) -> None:
        self._root_fd = root_fd
        self._names: list[bytes] = []
        # As many as names; CLOSED where a step was closed again.
        self._fds: list[int] = []

    def descriptor(self, path: bytes) -> int:
        """An O_PATH descriptor of `path`, ours, valid until the next call. Raises OSError."""
        names = path.split(b"/") if path else []
        shared = 0
        for mine, wanted in zip(self._names, names, strict=False):
            if mine != wanted:
                break
            shared += 1
        self._forget(shared)
        fd = self._reopened_end()
        for name in names[shared:]:
            fd = os.open(name, _STEP, dir_fd=fd)
            self._close_deep(len(self._fds) - 1)
            self._names.append(name)
            self._fds.append(fd)
        return fd

    def enter(self, path: bytes) -> os.stat_result:
        """Make `path` the working directory; returns its status. Raises OSError."""
        fd = self.descriptor(path)
        os.fchdir(fd)
        return os.fstat(fd)

    def _forget(self, keep: int) -> None:
        for fd in self._fds[keep:]:
            if fd != CLOSED:
                os.close(fd)
        del self._fds[keep:], self._names[keep:]

    def _reopened_end(self) -> int:
        """The descriptor of the last step, opened again from the nearest one that is open."""
        if not self._fds:
            return self._root_fd
        number = len(self._fds) - 1
        while self._fds[number] == CLOSED:
            number -= 1
        fd = self._fds[number]
        for step in range(number + 1, len(self._fds)):
            fd = os.open(self._names[step], _STEP, dir_fd=fd)
            self._close_deep(step - 1)
            self._fds[step] = fd
        return fd

    def _close_deep(self, number: int) -> None:
        if number >= ALL_OPEN_STEPS and number % OPEN_STEP:
            os.close(self._fds[number])
            self._fds[number] = CLOSED


@contextmanager
def pinned(name: bytes, file_type: int) -> Iterator[tuple[bytes, os.stat_result]]:
    """Open the inode that `name` in the working directory is.

    Gives a path that refers to the inode itself (even of a symbolic link) and its status.
    Raises OSError; also when it has another type than `file_type` or, unless it is a directory,
    more than one name, since it may be a file from outside the target.
    """
    fd = os.open(name, _PIN)
    try:
        status = os.fstat(fd)
        if stat.S_IFMT(status.st_mode) != file_type or (
            status.st_nlink > 1 and file_type != stat.S_IFDIR
        ):
            raise OSError(errno.ESTALE, "it was replaced while it was restored", name)
        yield b"/proc/self/fd/%d" % fd, status
    finally:
        os.close(fd)


def status_of(name: bytes) -> os.stat_result | None:
    """Status of `name` in the working directory; None when it does not exist. Raises OSError."""
    try:
        return os.lstat(name)
    except FileNotFoundError:
        return None
