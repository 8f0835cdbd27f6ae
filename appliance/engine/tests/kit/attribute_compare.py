"""Differences of what an inode carries besides its content."""

from __future__ import annotations

import errno
import os
import stat
import struct
from collections.abc import Iterator

from kit.difference import Difference, shown
from kit.directory_descriptors import get_flags, open_inode, short_path

ACL_NAMES = (b"system.posix_acl_access", b"system.posix_acl_default")

# Flags that chattr may set. Others (extents, index, inline data, ...) say how the file system
# happens to store the inode and belong to no backup.
SETTABLE_FLAGS = {
    0x00000001: "secure deletion",
    0x00000002: "undeletable",
    0x00000004: "compressed",
    0x00000008: "synchronous",
    0x00000010: "immutable",
    0x00000020: "append only",
    0x00000040: "no dump",
    0x00000080: "no atime",
    0x00004000: "data journalling",
    0x00008000: "no tail merging",
    0x00010000: "synchronous directory",
    0x00020000: "top of hierarchy",
    0x00800000: "no copy on write",
    0x02000000: "direct access",
    0x20000000: "project inherited",
}
SETTABLE_MASK = sum(SETTABLE_FLAGS)

_ACL_TAGS = {1: "user", 2: "user", 4: "group", 8: "group", 16: "mask", 32: "other"}
_NO_SUCH_FEATURE = (errno.ENOTTY, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)

Pair = tuple[int, int]
Stats = tuple[os.stat_result, os.stat_result]


def acl_text(value: bytes) -> str:
    """An ACL as getfacl writes it, or its bytes in hexadecimal when it is not a version 2 ACL."""
    if len(value) < 4 or value[:4] != struct.pack("<I", 2) or len(value) % 8 != 4:
        return value.hex()
    entries = []
    for tag, permissions, qualifier in struct.iter_unpack("<HHI", value[4:]):
        name = str(qualifier) if tag in (2, 8) else ""
        letters = "".join(
            letter if permissions & bit else "-" for letter, bit in (("r", 4), ("w", 2), ("x", 1))
        )
        entries.append(f"{_ACL_TAGS.get(tag, tag)}:{name}:{letters}")
    return ",".join(entries)


def read_xattrs(name: bytes, directory: int) -> dict[bytes, bytes]:
    """All extended attributes of `name` itself, ACLs among them; empty where unsupported."""
    path = short_path(name, directory)
    try:
        names = os.listxattr(path, follow_symlinks=False)
    except OSError as error:
        if error.errno in _NO_SUCH_FEATURE:
            return {}
        raise
    return {
        os.fsencode(key): os.getxattr(path, os.fsencode(key), follow_symlinks=False)
        for key in names
    }


def _xattr_differences(path: bytes, name: bytes, sides: Pair) -> Iterator[Difference]:
    expected, actual = (read_xattrs(name, directory) for directory in sides)
    if expected == actual:
        return
    for key in sorted(expected.keys() | actual.keys()):
        values = expected.get(key), actual.get(key)
        if values[0] == values[1]:
            continue
        if key in ACL_NAMES:
            texts = ["none" if value is None else acl_text(value) for value in values]
            label = key.decode().rpartition("_")[2]
            yield Difference(path, "acl", f"{label} {texts[0]}", f"{label} {texts[1]}")
            continue
        texts = [
            "none" if value is None else f"{len(value)} bytes {shown(value, 60)!r}"
            for value in values
        ]
        yield Difference(path, "xattr", f"{shown(key)} {texts[0]}", f"{shown(key)} {texts[1]}")


def _flags_of(name: bytes, directory: int) -> int:
    with open_inode(name, directory) as descriptor:
        try:
            return get_flags(descriptor) & SETTABLE_MASK
        except OSError as error:
            if error.errno in _NO_SUCH_FEATURE:
                return 0
            raise


def _flags_text(flags: int) -> str:
    return ", ".join(text for bit, text in SETTABLE_FLAGS.items() if flags & bit) or "none"


def _stat_differences(path: bytes, stats: Stats) -> Iterator[Difference]:
    expected, actual = stats
    expected_mode, actual_mode = stat.S_IMODE(expected.st_mode), stat.S_IMODE(actual.st_mode)
    if expected_mode != actual_mode:
        yield Difference(path, "mode", f"{expected_mode:04o}", f"{actual_mode:04o}")
    if expected.st_uid != actual.st_uid:
        yield Difference(path, "owner", str(expected.st_uid), str(actual.st_uid))
    if expected.st_gid != actual.st_gid:
        yield Difference(path, "group", str(expected.st_gid), str(actual.st_gid))
    if expected.st_mtime_ns != actual.st_mtime_ns:
        yield Difference(path, "mtime", str(expected.st_mtime_ns), str(actual.st_mtime_ns))
    if stat.S_ISREG(expected.st_mode) and expected.st_size != actual.st_size:
        yield Difference(path, "size", str(expected.st_size), str(actual.st_size))
    if expected.st_rdev != actual.st_rdev:
        numbers = [f"{os.major(side.st_rdev)}:{os.minor(side.st_rdev)}" for side in stats]
        yield Difference(path, "device", *numbers)


def attribute_differences(
    path: bytes, name: bytes, sides: Pair, stats: Stats
) -> Iterator[Difference]:
    """Differences of `name` between the directories `sides` (expected, actual).

    Both entries must be of one type; `stats` are their lstat results. What may not be read is
    itself reported, as `unreadable`.
    """
    yield from _stat_differences(path, stats)
    mode = stats[0].st_mode
    if stat.S_ISLNK(mode):
        targets = [os.readlink(name, dir_fd=directory) for directory in sides]
        if targets[0] != targets[1]:
            yield Difference(path, "target", shown(targets[0]), shown(targets[1]))
    try:
        yield from _xattr_differences(path, name, sides)
        if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
            flags = [_flags_of(name, directory) for directory in sides]
            if flags[0] != flags[1]:
                yield Difference(path, "flags", *map(_flags_text, flags))
    except PermissionError as error:
        yield Difference(path, "unreadable", "xattrs and flags", error.strerror or "refused")
