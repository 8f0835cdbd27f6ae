"""Read one directory: its names in order and their packed stat columns.

Everything here works on names relative to the working directory, because `lstat` of a short
relative name is the cheapest call. A child process therefore owns its working directory;
threads of one process must not call `read_names` on different directories at once.

Nothing here follows a symbolic link, also not on the way to a directory: one that was replaced by
a link is detected. A path may be longer than PATH_MAX.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
from array import array
from collections.abc import Iterator
from itertools import chain, islice
from operator import attrgetter
from typing import Final, NamedTuple

from strongroom.base import clock
from strongroom.engine.rows.rows import STAT_COLUMNS

_COLUMN_COUNT: Final = len(STAT_COLUMNS)
_TIME_COLUMNS: Final = ("st_mtime_ns", "st_ctime_ns")
_SMALLEST: Final = -(1 << 63)
_LARGEST: Final = (1 << 63) - 1
_packed_columns = attrgetter(*STAT_COLUMNS)
_BATCH_NAMES: Final = 65536
# As Python objects they take three times as much memory as in a column.
_YIELDED_NAMES: Final = 8192
_FIXED_WIDTH_LIMIT_BYTES: Final = 64 << 20
_PASS_DIRECTORY: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# openat2(2), which has one number on all of Debian's architectures.
_OPENAT2: Final = 437
_NO_SYMLINKS: Final = 0x04
_BENEATH: Final = 0x08
# Of a path longer than PATH_MAX so much is passed in one call.
_LONG_STEP_BYTES: Final = 4000
_KEPT_SECONDS: Final = 1.0


class UnreadableName(NamedTuple):
    """A name that could not be examined; `row` counts in the list of names handed in."""

    row: int
    name: bytes
    error: OSError


class _OpenHow(ctypes.Structure):
    """struct open_how of openat2(2)."""

    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


_syscall = ctypes.CDLL(None).syscall
_syscall.argtypes = (
    ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(_OpenHow), ctypes.c_size_t,
)  # fmt: skip
_syscall.restype = ctypes.c_long
_open_how = ctypes.pointer(_OpenHow(_OPEN_DIRECTORY, 0, _NO_SYMLINKS | _BENEATH))
_pass_how = ctypes.pointer(_OpenHow(_PASS_DIRECTORY, 0, _NO_SYMLINKS | _BENEATH))


class _HeldDescriptor:
    """A descriptor that is closed when no one refers to it: with its thread."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number

    def __del__(self) -> None:
        os.close(self.number)


class _LongWay(threading.local):
    """How far the last long path was gone, for the next: its beginning, and a descriptor of it.

    The kernel would pass all directories above for each directory below: the square of the depth.
    Kept for a second, for what is meanwhile moved elsewhere, and closed by what the thread opens
    next.
    """

    _root = (-1, -1)
    _gone = b""
    _held: _HeldDescriptor | None = None
    _until = 0.0

    def begin(self, root_fd: int, path: bytes) -> tuple[int, bytes]:
        """A descriptor on the way, for the caller to close, and the rest of the path."""
        there = os.fstat(root_fd)
        root = (there.st_dev, there.st_ino)
        is_of_it = self._root == root and bool(self._gone) and path.startswith(self._gone)
        if self._held is not None and is_of_it and clock.elapsed_seconds() < self._until:
            return os.dup(self._held.number), path[len(self._gone) :]
        self.forget()
        self._root, self._until = root, clock.elapsed_seconds() + _KEPT_SECONDS
        return os.open(b".", _PASS_DIRECTORY, dir_fd=root_fd), path

    def went(self, descriptor: int, part: bytes) -> None:
        """A step was made, to this directory."""
        gone, root, until = self._gone + part, self._root, self._until
        self.forget()
        # Without one to spare the way is gone again.
        with contextlib.suppress(OSError):
            self._held = _HeldDescriptor(os.dup(descriptor))
            self._gone, self._root, self._until = gone, root, until

    def forget(self) -> None:
        """Close the descriptor: the way leads elsewhere now."""
        self._held, self._gone, self._root = None, b"", (-1, -1)

    def close_old(self) -> None:
        """Close the descriptor if its second is over."""
        if self._held is not None and clock.elapsed_seconds() >= self._until:
            self.forget()


_long_way = _LongWay()


def open_beneath(root_fd: int, path: bytes) -> int:
    """Open the directory `path` (bytes, relative, b"" for `root_fd`), following no link.

    Search permission is enough for the steps; a directory at the end that may not be listed
    can still be entered. The caller closes the descriptor. Raises OSError: ELOOP or ENOTDIR where
    a step is not a directory.
    """
    # A fifth of the time that steps take. They find out what is wrong, go beyond PATH_MAX, and
    # need no system call that an old kernel lacks or a sandbox forbids.
    opened = open_at_once(root_fd, path)
    if opened < 0:
        return _open_by_steps(root_fd, path)
    _long_way.close_old()
    return opened


def open_at_once(root_fd: int, path: bytes) -> int:
    """Open a directory as `open_beneath` does, by one system call: -1 where that fails, however."""
    if b"\0" in path:
        return -1
    opened: int = _syscall(_OPENAT2, root_fd, path or b".", _open_how, ctypes.sizeof(_OpenHow))
    return opened


def _open_by_steps(root_fd: int, path: bytes) -> int:
    if len(path) <= _LONG_STEP_BYTES:
        _long_way.close_old()
        return _open_from(os.open(b".", _PASS_DIRECTORY, dir_fd=root_fd), path, is_long=False)
    current, rest = _long_way.begin(root_fd, path)
    try:
        return _open_from(current, rest, is_long=True)
    except OSError:
        if rest == path:
            raise
    # What is remembered may have been moved or removed.
    _long_way.forget()
    current, rest = _long_way.begin(root_fd, path)
    return _open_from(current, rest, is_long=True)


def _open_from(current: int, path: bytes, *, is_long: bool) -> int:
    """The directory `path` below a descriptor, which is closed."""
    try:
        if is_long and (opened := open_at_once(current, path)) >= 0:
            return opened
        # Else each directory of a deep tree would take as many calls as it has above it.
        while len(path) > _LONG_STEP_BYTES:
            end = path.rfind(b"/", 0, _LONG_STEP_BYTES)
            passed = _syscall(
                _OPENAT2, current, path[: max(0, end)], _pass_how, ctypes.sizeof(_OpenHow)
            )
            if passed < 0:
                break
            os.close(current)
            gone, current, path = path[: end + 1], passed, path[end + 1 :]
            _long_way.went(current, gone)
            if (opened := open_at_once(current, path)) >= 0:
                return opened
        *steps, last = path.split(b"/") if path else [b"."]
        for step in steps:
            following = os.open(step, _PASS_DIRECTORY, dir_fd=current)
            os.close(current)
            current = following
        try:
            return os.open(last, _OPEN_DIRECTORY, dir_fd=current)
        except PermissionError:
            return os.open(last, _PASS_DIRECTORY, dir_fd=current)
    finally:
        os.close(current)


def read_names(directory_fd: int, most: int | None = None) -> list[bytes] | None:
    """Names in the directory, sorted by bytes; leaves it as the working directory.

    None when there are more than `most`: `read_wide_names` lists those in less memory. Listing
    "." yields bytes at once, where listing a descriptor would decode every name.
    Raises OSError.
    """
    os.fchdir(directory_fd)
    if most is None:
        names = os.listdir(b".")
    else:
        with os.scandir(b".") as entries:
            names = [entry.name for entry in islice(entries, most + 1)]
        if len(names) > most:
            return None
    names.sort()
    return names


def read_some_names(directory_fd: int, most: int) -> Iterator[list[bytes]]:
    """Names in the directory as the kernel lists them, at most `most` at a time, each lot sorted.

    Leaves it as the working directory. Raises OSError.
    """
    os.fchdir(directory_fd)
    with os.scandir(b".") as entries:
        while names := [entry.name for entry in islice(entries, most)]:
            names.sort()
            yield names


def read_wide_names() -> Iterator[list[bytes]]:
    """Names in the working directory, sorted by bytes, some thousands at a time.

    A name takes about as many bytes as it is long, where a list of bytes objects takes 40 more.
    Raises OSError.
    """
    import numpy as np

    batches = []
    with os.scandir(b".") as entries:
        while names := [entry.name for entry in islice(entries, _BATCH_NAMES)]:
            batches.append(np.array(names, dtype=np.bytes_))
    longest = max((batch.itemsize for batch in batches), default=1)
    count = sum(map(len, batches))
    if longest * count > _FIXED_WIDTH_LIMIT_BYTES:
        # A few long names among many short ones would make the column huge.
        whole = sorted(name for batch in batches for name in batch.tolist())
        for start in range(0, count, _YIELDED_NAMES):
            yield whole[start : start + _YIELDED_NAMES]
        return
    column = np.empty(count, dtype=f"S{longest}")
    start = 0
    while batches:
        batch = batches.pop()
        column[start : start + len(batch)] = batch
        start += len(batch)
    column.sort()
    for start in range(0, count, _YIELDED_NAMES):
        yield column[start : start + _YIELDED_NAMES].tolist()


def stat_rows(names: list[bytes]) -> tuple[array[int], list[UnreadableName]]:
    """Examine `names` in the working directory with lstat.

    Returns the columns STAT_COLUMNS as int64, row major, of the names that could be examined,
    in order, and the failures; `without_failures` gives the names that belong to the rows.
    Unsigned numbers of 2**63 and more (inode numbers of some overlay file systems) wrap to
    negative ones; times beyond the years 1677 to 2262 become the nearest that fits.
    """
    flat = array("q")
    failures: list[UnreadableName] = []
    pending = iter(names)
    while True:
        try:
            flat.extend(chain.from_iterable(map(_packed_columns, map(os.lstat, pending))))
        except OSError as error:
            row = len(flat) // _COLUMN_COUNT + len(failures)
            failures.append(UnreadableName(row, names[row], error))
        except OverflowError:
            whole_rows = len(flat) // _COLUMN_COUNT
            del flat[whole_rows * _COLUMN_COUNT :]
            row = whole_rows + len(failures)
            try:
                flat.extend(fitting_columns(os.lstat(names[row])))
            except OSError as error:
                failures.append(UnreadableName(row, names[row], error))
        else:
            return flat, failures


def without_failures(names: list[bytes], failures: list[UnreadableName]) -> list[bytes]:
    """The names for which `stat_rows` returned a row."""
    if not failures:
        return names
    failed = {failure.row for failure in failures}
    return [name for row, name in enumerate(names) if row not in failed]


def fitting_mtime_ns(status: os.stat_result) -> int:
    """The time of the last change as rows hold it."""
    return max(_SMALLEST, min(status.st_mtime_ns, _LARGEST))


def fitting_columns(status: os.stat_result) -> list[int]:
    """The columns of one status, as `stat_rows` packs them."""
    values = []
    for column in STAT_COLUMNS:
        value: int = getattr(status, column)
        if not _SMALLEST <= value <= _LARGEST:
            if column in _TIME_COLUMNS:
                value = _SMALLEST if value < 0 else _LARGEST
            else:
                value -= 1 << 64
        values.append(value)
    return values
