"""Metadata: modes, owners and times, alone and where one undoes the other."""

from __future__ import annotations

import os
import stat

from kit.directory_descriptors import make_directory, new_directory, write_file
from kit.torture_feature import Feature, FeatureRefusedError

SECOND_NS = 1_000_000_000
OWNERS = (
    (0, 0), (0, 1), (1, 0), (1000, 100), (65_534, 65_534), (65_535, 65_536), (65_536, 65_535),
    (2**31 - 1, 2**31), (2**31, 2**31 - 1), (2**32 - 2, 2**32 - 2), (0, 2**32 - 2), (2**32 - 2, 0),
)  # fmt: skip
# The last two are the ends of what ext4 keeps: 1901-12-13 and 2446-05-10.
TIMES_NS = (
    0, 1, -1, 999_999_999, -999_999_999, -SECOND_NS // 2, SECOND_NS, -SECOND_NS, -SECOND_NS - 1,
    (2**31 - 1) * SECOND_NS + 999_999_999, 2**31 * SECOND_NS, (2**32 - 1) * SECOND_NS + 1,
    2**32 * SECOND_NS + 123_456_789, 4_354_819_200 * SECOND_NS + 7, -1_500_000_000 * SECOND_NS - 3,
    -(2**31) * SECOND_NS, 15_032_385_535 * SECOND_NS,
)  # fmt: skip
DIRECTORY_MODES: tuple[int, ...] = (
    0o000, 0o100, 0o200, 0o300, 0o400, 0o500, 0o555, 0o711, 0o777, 0o1777, 0o2755, 0o3777,
    0o4755, 0o6755, 0o7777, 0o7000,
)  # fmt: skip


def _file_modes(directory: int, modes: list[int]) -> None:
    for mode in modes:
        name = b"%04o" % mode
        write_file(name, directory, name if mode % 8 == 0 else b"")
        os.chmod(name, mode, dir_fd=directory)


def _readable_modes(directory: int) -> None:
    _file_modes(directory, [mode for mode in range(0o10000) if mode & stat.S_IRUSR])


def _unreadable_modes(directory: int) -> None:
    _need_root("reading files of mode 000")
    _file_modes(directory, [mode for mode in range(0o10000) if not mode & stat.S_IRUSR])


def _need_root(what: str) -> None:
    if os.geteuid():
        raise FeatureRefusedError(f"{what} needs root")


def _directory_modes(directory: int, modes: tuple[int, ...]) -> None:
    for mode in modes:
        name = b"%04o" % mode
        with new_directory(name, directory) as below:
            write_file(b"file", below, name)
            os.mkdir(b"subdirectory", dir_fd=below)
            os.symlink(b"file", b"symlink", dir_fd=below)
        os.chmod(name, mode, dir_fd=directory)


def _passable_directory_modes(directory: int) -> None:
    _directory_modes(directory, tuple(m for m in DIRECTORY_MODES if m & 0o500 == 0o500))


def _impassable_directory_modes(directory: int) -> None:
    _need_root("entering directories of mode 000")
    _directory_modes(directory, tuple(m for m in DIRECTORY_MODES if m & 0o500 != 0o500))


def _owners(directory: int) -> None:
    _need_root("giving files away")
    for owner, group in OWNERS:
        suffix = b"-%d-%d" % (owner, group)
        write_file(b"file" + suffix, directory, suffix)
        os.mkdir(b"directory" + suffix, dir_fd=directory)
        os.symlink(b"nowhere", b"symlink" + suffix, dir_fd=directory)
        os.mkfifo(b"fifo" + suffix, dir_fd=directory)
        os.mknod(b"device" + suffix, stat.S_IFCHR | 0o600, os.makedev(1, 3), dir_fd=directory)
        write_file(b"setuid" + suffix, directory)
        for kind in (b"file", b"directory", b"symlink", b"fifo", b"device", b"setuid"):
            os.chown(kind + suffix, owner, group, dir_fd=directory, follow_symlinks=False)
        # chown clears these bits, so anyone who restores must set them after it.
        os.chmod(b"setuid" + suffix, 0o6755, dir_fd=directory)
        os.chmod(b"directory" + suffix, 0o7755, dir_fd=directory)


def _set_group_directories(directory: int) -> None:
    _need_root("a directory of another group")
    below = make_directory(b"inherits", directory)
    try:
        os.fchown(below, 0, 4242)
        os.fchmod(below, 0o2775)
        write_file(b"group-of-directory", below)
        write_file(b"group-of-its-own", below)
        os.chown(b"group-of-its-own", 7, 8, dir_fd=below)
        os.mkdir(b"inherited-bit", dir_fd=below)
        os.mkdir(b"bit-taken-away", dir_fd=below)
        os.chmod(b"bit-taken-away", 0o755, dir_fd=below)
        os.symlink(b"x", b"symlink-of-root", dir_fd=below)
        os.chown(b"symlink-of-root", 0, 0, dir_fd=below, follow_symlinks=False)
    finally:
        os.close(below)


def _set_time(name: bytes, directory: int, time_ns: int) -> None:
    os.utime(name, ns=(time_ns, time_ns), dir_fd=directory, follow_symlinks=False)
    kept = os.lstat(name, dir_fd=directory).st_mtime_ns
    if kept != time_ns:
        raise FeatureRefusedError(f"the file system keeps {kept} ns for {time_ns} ns")


def _times(directory: int, times_ns: list[int]) -> None:
    for time_ns in times_ns:
        suffix = b"-%d" % time_ns
        write_file(b"file" + suffix, directory, suffix)
        os.symlink(b"nowhere", b"symlink" + suffix, dir_fd=directory)
        os.mkfifo(b"fifo" + suffix, dir_fd=directory)
        with new_directory(b"directory" + suffix, directory) as below:
            write_file(b"child", below)
            _set_time(b"child", below, time_ns)
            os.mkdir(b"subdirectory", dir_fd=below)
            _set_time(b"subdirectory", below, -time_ns if -time_ns in times_ns else time_ns)
        for kind in (b"file", b"symlink", b"fifo", b"directory"):
            _set_time(kind + suffix, directory, time_ns)


def _usual_times(directory: int) -> None:
    _times(directory, [time_ns for time_ns in TIMES_NS if 0 <= time_ns < 2**31 * SECOND_NS])


def _times_before_1970(directory: int) -> None:
    _times(directory, [time_ns for time_ns in TIMES_NS if time_ns < 0])


def _times_after_2038(directory: int) -> None:
    _times(directory, [time_ns for time_ns in TIMES_NS if time_ns >= 2**31 * SECOND_NS])


FEATURES = (
    Feature("modes-readable", _readable_modes),
    Feature("modes-unreadable", _unreadable_modes),
    Feature("directory-modes", _passable_directory_modes),
    Feature("directory-modes-impassable", _impassable_directory_modes),
    Feature("owners", _owners),
    Feature("set-group-directories", _set_group_directories),
    Feature("times", _usual_times),
    Feature("times-before-1970", _times_before_1970),
    Feature("times-after-2038", _times_after_2038),
)
