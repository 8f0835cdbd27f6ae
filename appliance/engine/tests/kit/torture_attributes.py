"""Extended attributes, ACLs, file capabilities and chattr flags."""

from __future__ import annotations

import errno
import os
import random
import stat
import struct
from collections.abc import Iterable

from kit.attribute_compare import SETTABLE_FLAGS
from kit.directory_descriptors import (
    APPEND_ONLY,
    IMMUTABLE,
    get_flags,
    new_directory,
    open_inode,
    set_flags,
    short_path,
    write_file,
)
from kit.torture_feature import REFUSALS, Feature, FeatureRefusedError

XATTR_NAME_MAX_BYTES = 255
XATTR_SIZES_BYTES = (65_536, 65_535, 32_768, 16_384, 8_192, 4_000, 3_000, 2_000, 1_000)
ACL_ACCESS = b"system.posix_acl_access"
ACL_DEFAULT = b"system.posix_acl_default"
NO_QUALIFIER = 2**32 - 1
USER_OBJECT, USER, GROUP_OBJECT, GROUP, MASK, OTHER = 1, 2, 4, 8, 16, 32


def _set_xattr(name: bytes, directory: int, key: bytes, value: bytes) -> None:
    os.setxattr(short_path(name, directory), key, value, follow_symlinks=False)


def _user_xattrs(directory: int) -> None:
    with new_directory(b"directory", directory) as below:
        write_file(b"child", below)
        _set_xattr(b"child", below, b"user.child", b"1")
    write_file(b"file", directory, b"content")
    for name in (b"file", b"directory"):
        _set_xattr(name, directory, b"user.text", b"value")
        _set_xattr(name, directory, b"user.empty", b"")
        _set_xattr(name, directory, b"user.one-nul", b"\0")
        _set_xattr(name, directory, b"user.every-byte", bytes(range(256)))
        _set_xattr(name, directory, b"user.\xff\xfe not utf-8", b"\xff")
        _set_xattr(name, directory, b"user.new\nline=", b"a\nb")
        _set_xattr(name, directory, b"user.case", b"lower")
        _set_xattr(name, directory, b"user.CASE", b"upper")
    write_file(b"long-name", directory)
    longest = b"user." + b"n" * (XATTR_NAME_MAX_BYTES - len(b"user."))
    _set_xattr(b"long-name", directory, longest, b"longest")
    write_file(b"many", directory)
    for number in range(40):
        _set_xattr(b"many", directory, b"user.number-%d" % number, b"%d" % number)
    for number in range(20):
        write_file(b"same-set-%d" % number, directory)
        _set_xattr(b"same-set-%d" % number, directory, b"user.shared", b"the same everywhere")
    # A restore that sets the mode first cannot set the attribute any more unless it is root.
    write_file(b"read-only", directory, b"x")
    _set_xattr(b"read-only", directory, b"user.on-read-only", b"1")
    os.chmod(b"read-only", 0o400, dir_fd=directory)
    write_file(b"linked", directory)
    _set_xattr(b"linked", directory, b"user.on-linked", b"1")
    os.link(b"linked", b"linked too", src_dir_fd=directory, dst_dir_fd=directory)


def _largest_xattr(directory: int) -> None:
    refused = {errno.ENOSPC, errno.E2BIG, errno.ERANGE, errno.EDQUOT} | REFUSALS
    for size_bytes in XATTR_SIZES_BYTES:
        name = b"file-%d" % size_bytes
        write_file(name, directory)
        try:
            _set_xattr(
                name, directory, b"user.large", random.Random(size_bytes).randbytes(size_bytes)
            )
        except OSError as error:
            if error.errno not in refused:
                raise
            os.unlink(name, dir_fd=directory)
            continue
        with new_directory(b"directory", directory):
            _set_xattr(b"directory", directory, b"user.large", b"v" * size_bytes)
        return
    raise FeatureRefusedError("not even 1,000 bytes fit into an extended attribute")


def _xattr_64_kib(directory: int) -> None:
    write_file(b"file", directory)
    try:
        _set_xattr(b"file", directory, b"user.large", random.Random("64 KiB").randbytes(65_536))
    except OSError as error:
        raise FeatureRefusedError(f"values of 64 KiB: {error.strerror}") from error


def _trusted_xattrs(directory: int) -> None:
    write_file(b"file", directory)
    os.symlink(b"nowhere", b"symlink", dir_fd=directory)
    os.link(
        b"symlink", b"symlink2", src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False
    )
    os.mkfifo(b"fifo", dir_fd=directory)
    os.mkdir(b"directory", dir_fd=directory)
    for name in (b"file", b"symlink", b"fifo", b"directory"):
        _set_xattr(name, directory, b"trusted.strongroom", b"of " + name)
        _set_xattr(name, directory, b"trusted.empty", b"")
        _set_xattr(name, directory, b"trusted.\xffbytes", bytes(range(256)))
    os.mknod(b"device", stat.S_IFCHR | 0o600, os.makedev(1, 3), dir_fd=directory)
    _set_xattr(b"device", directory, b"trusted.strongroom", b"of device")


def _security_xattrs(directory: int) -> None:
    write_file(b"file", directory)
    os.mkdir(b"directory", dir_fd=directory)
    os.symlink(b"nowhere", b"symlink", dir_fd=directory)
    for name in (b"file", b"directory", b"symlink"):
        _set_xattr(name, directory, b"security.strongroom", b"of " + name)
        _set_xattr(name, directory, b"security.empty", b"")


def acl(*entries: tuple[int, int, int]) -> bytes:
    """The kernel's form of an ACL from (tag, permissions, qualifier)."""
    packed = b"".join(struct.pack("<HHI", *entry) for entry in entries)
    return struct.pack("<I", 2) + packed


def _named_acl(users: Iterable[int], groups: Iterable[int], mask: int) -> bytes:
    return acl(
        (USER_OBJECT, 7, NO_QUALIFIER),
        *((USER, 7, user) for user in sorted(users)),
        (GROUP_OBJECT, 7, NO_QUALIFIER),
        *((GROUP, 5, group) for group in sorted(groups)),
        (MASK, mask, NO_QUALIFIER),
        (OTHER, 0, NO_QUALIFIER),
    )


def _acls(directory: int) -> None:
    access = {
        b"one-user": _named_acl([1000], [], 7),
        b"users-and-groups": _named_acl([0, 1, 65_535], [0, 7, 100_000], 5),
        b"mask-hides-all": _named_acl([1000], [1000], 0),
        b"largest-ids": _named_acl([2**31, 2**32 - 2], [2**31, 2**32 - 2], 6),
        b"many-entries": _named_acl(range(1, 101), range(1, 101), 7),
    }
    for name, value in access.items():
        write_file(name, directory, name)
        _set_xattr(name, directory, ACL_ACCESS, value)
        os.mkdir(name + b".d", dir_fd=directory)
        _set_xattr(name + b".d", directory, ACL_ACCESS, value)
    write_file(b"with-setuid", directory)
    _set_xattr(b"with-setuid", directory, ACL_ACCESS, _named_acl([5], [], 7))
    os.chmod(b"with-setuid", 0o6770, dir_fd=directory)
    os.mkfifo(b"fifo", dir_fd=directory)
    _set_xattr(b"fifo", directory, ACL_ACCESS, _named_acl([5], [], 6))


def _default_acls(directory: int) -> None:
    """What lies below a default ACL inherits it when made anew: a restore must undo that."""
    inherited = _named_acl([1234], [4321], 7)
    with new_directory(b"only-default", directory) as below:
        _set_xattr(b"only-default", directory, ACL_DEFAULT, inherited)
        for name in (b"inherits", b"rid-of-it"):
            write_file(name, below)
            with new_directory(name + b".d", below) as innermost:
                write_file(b"file", innermost)
        os.removexattr(short_path(b"rid-of-it", below), ACL_ACCESS)
        os.chmod(b"rid-of-it", 0o604, dir_fd=below)
        for key in (ACL_ACCESS, ACL_DEFAULT):
            os.removexattr(short_path(b"rid-of-it.d", below), key)
        os.symlink(b"nowhere", b"symlink", dir_fd=below)
        os.mkfifo(b"fifo", dir_fd=below)
    os.mkdir(b"both", dir_fd=directory)
    _set_xattr(b"both", directory, ACL_ACCESS, _named_acl([9], [], 5))
    _set_xattr(b"both", directory, ACL_DEFAULT, _named_acl([], [9], 1))


def _capability(permitted: int, root: int | None = None) -> bytes:
    if root is None:
        return struct.pack("<5I", 0x02000001, permitted & 0xFFFFFFFF, 0, permitted >> 32, 0)
    return struct.pack("<6I", 0x03000001, permitted & 0xFFFFFFFF, 0, permitted >> 32, 0, root)


def _capabilities(directory: int) -> None:
    """Any chown or write takes capabilities away: they have to be restored last."""
    capabilities = {
        b"raw-socket": _capability(1 << 13),
        b"beyond-32-bits": _capability(1 << 39 | 1 << 10),
        b"of-a-namespace": _capability(1 << 7, root=100_000),
    }
    for name, value in capabilities.items():
        write_file(name, directory, b"#!/bin/true\n", 0o755)
        os.chown(name, 1000, 1000, dir_fd=directory)
        _set_xattr(name, directory, b"security.capability", value)
    write_file(b"setuid-too", directory, b"#!/bin/true\n")
    os.chown(b"setuid-too", 33, 44, dir_fd=directory)
    os.chmod(b"setuid-too", 0o6755, dir_fd=directory)
    _set_xattr(b"setuid-too", directory, b"security.capability", _capability(1 << 12))
    os.link(b"setuid-too", b"linked", src_dir_fd=directory, dst_dir_fd=directory)


def _add_flags(name: bytes, directory: int, added: int) -> None:
    with open_inode(name, directory) as descriptor:
        set_flags(descriptor, get_flags(descriptor) | added)
        if get_flags(descriptor) & added != added:
            raise OSError(errno.EOPNOTSUPP, "the flag was taken and not kept")


def _flags(directory: int) -> None:
    kept = 0
    for flag in SETTABLE_FLAGS:
        if flag in (IMMUTABLE, APPEND_ONLY):
            continue
        file_name, directory_name = b"file-%08x" % flag, b"directory-%08x" % flag
        write_file(file_name, directory)
        os.mkdir(directory_name, dir_fd=directory)
        for name in (file_name, directory_name):
            try:
                _add_flags(name, directory, flag)
                kept += 1
            except OSError as error:
                if error.errno not in REFUSALS:
                    raise
    if not kept:
        raise FeatureRefusedError("the file system keeps no inode flags")
    # Content after the flag, so that the file has some and the flag is one that stands writing.
    write_file(b"no-dump", directory, b"content")
    _add_flags(b"no-dump", directory, 0x40)


def _protective_flags(directory: int) -> None:
    """Immutable and append-only inodes: nothing can be set, linked or put in afterwards."""
    for label, flag in ((b"immutable", IMMUTABLE), (b"append-only", APPEND_ONLY)):
        write_file(label, directory, b"content of " + label)
        _set_xattr(label, directory, b"user.beside", b"a flag")
        os.utime(label, ns=(5, 1_234_567_891_000_000_003), dir_fd=directory)
        os.link(label, b"0-" + label + b"-link", src_dir_fd=directory, dst_dir_fd=directory)
        with new_directory(label + b".d", directory) as below:
            write_file(b"child", below, b"x")
            with new_directory(b"subdirectory", below) as innermost:
                write_file(b"grandchild", innermost)
            _add_flags(b"subdirectory", below, flag)
            os.link(label, b"linked here", src_dir_fd=directory, dst_dir_fd=below)
        _add_flags(label + b".d", directory, flag)
        _add_flags(label, directory, flag)
    write_file(b"both", directory, b"x")
    _add_flags(b"both", directory, IMMUTABLE | APPEND_ONLY)


FEATURES = (
    Feature("xattrs-user", _user_xattrs),
    Feature("xattrs-largest", _largest_xattr),
    Feature("xattrs-64-kib", _xattr_64_kib),
    Feature("xattrs-trusted", _trusted_xattrs),
    Feature("xattrs-security", _security_xattrs),
    Feature("acls", _acls),
    Feature("acls-default", _default_acls),
    Feature("capabilities", _capabilities),
    Feature("flags", _flags),
    Feature("flags-protective", _protective_flags),
)
