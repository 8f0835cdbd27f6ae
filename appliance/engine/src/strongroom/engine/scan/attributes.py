"""Extended attributes, ACLs and chattr flags of names in the working directory.

POSIX ACLs are the extended attributes `system.posix_acl_access` and `..._default`, so one
canonical encoding holds both: pairs sorted by name, each `name length u16, value length u32,
name, value`, little endian. Equal sets are therefore equal bytes. Nothing here follows a
symbolic link, and nothing but regular files and directories is opened.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import struct
from collections.abc import Iterable, Sequence
from typing import Final

from strongroom.base.errors import DamageError
from strongroom.engine.scan.directory import UnreadableName

# What a file system derives from an attribute or an inode and shows as its own attribute: to
# set it is wrong elsewhere, to remove it removes what it shows. XFS shows root each ACL as it
# stores it; the kernel authenticates attributes of one inode with a key of the machine (EVM).
_SHADOWS: Final = frozenset((b"trusted.SGI_ACL_FILE", b"trusted.SGI_ACL_DEFAULT"))
_EVM: Final = b"security.evm"
_EVM_OF_MACHINE: Final = b"\x02"  # others are signatures, which are right on every machine
_HEAD: Final = struct.Struct("<HI")
_ACL_PREFIX: Final = "system."
_UNSUPPORTED: Final = (errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)
# ENODATA: the attribute was removed between listing and reading it.
_GONE: Final = errno.ENODATA

_LONG: Final = struct.Struct("l")
_INT: Final = struct.Struct("I")
_GET_FLAGS: Final = 0x80006601 | _LONG.size << 16
_FLAG_ERRORS: Final = (errno.ENOTTY, errno.EINVAL, *_UNSUPPORTED)
# Flags that chattr can set: s u c S i a d A, m, j t D T, C, x, P, F. The others (extents,
# encrypted, verity, inline data) describe how the file system stores the file.
SETTABLE_FLAGS: Final = 0x000380FF | 0x400 | 0x4000 | 0x800000 | 0x2000000 | 0x20000000 | 0x40000000
_OPEN_TO_ASK: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC


def is_shadow(name: bytes, value: bytes) -> bool:
    """Whether an attribute only shows another one, so that it is neither stored nor restored."""
    return name in _SHADOWS or (name == _EVM and value[:1] == _EVM_OF_MACHINE)


def encode_xattrs(pairs: Iterable[tuple[bytes, bytes]]) -> bytes:
    """The canonical encoding; b"" for no attribute."""
    parts: list[bytes] = []
    for name, value in sorted(pairs):
        parts += (_HEAD.pack(len(name), len(value)), name, value)
    return b"".join(parts)


def attribute_names(encoded: bytes) -> tuple[bytes, ...] | None:
    """The names in an encoding; None where it is damaged."""
    try:
        return tuple(name for name, _ in decode_xattrs(encoded))
    except DamageError:
        return None


def decode_xattrs(encoded: bytes) -> list[tuple[bytes, bytes]]:
    """The (name, value) pairs of an encoding, without shadows, which older snapshots hold.

    Raises DamageError when it is not an encoding.
    """
    pairs: list[tuple[bytes, bytes]] = []
    offset = 0
    while offset < len(encoded):
        start = offset + _HEAD.size
        if start > len(encoded):
            raise DamageError("extended attributes of a row end in the middle of a length")
        name_length, value_length = _HEAD.unpack_from(encoded, offset)
        middle = start + name_length
        offset = middle + value_length
        if offset > len(encoded) or not name_length or b"\0" in encoded[start:middle]:
            raise DamageError("extended attributes of a row are not well formed")
        pair = encoded[start:middle], encoded[middle:offset]
        if not is_shadow(*pair):
            pairs.append(pair)
    return pairs


def supports_xattrs(directory_fd: int) -> bool:
    """Whether the directory's file system can have extended attributes at all.

    One call for each file system saves one call for each file without support.
    """
    try:
        os.listxattr(directory_fd)
    except OSError as error:
        # A directory without read permission gives EBADF: then every name is examined.
        if error.errno in _UNSUPPORTED:
            return False
    return True


def read_xattrs(
    names: Sequence[bytes], rows: Iterable[int], *, acls: bool = True, others: bool = True
) -> tuple[dict[int, bytes], list[UnreadableName]]:
    """Encoded attributes of `names[row]` in the working directory, of the rows that have any.

    `acls` selects the ACLs, `others` all other attributes. Attributes that could not be read
    are failures of their row; the row's other attributes are kept.
    """
    listed = os.listxattr
    found: dict[int, bytes] = {}
    failures: list[UnreadableName] = []
    for row in rows:
        try:
            attributes = listed(names[row], follow_symlinks=False)
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                failures.append(UnreadableName(row, names[row], error))
            continue
        if attributes:
            encoded = _read_set(names[row], row, attributes, acls, others, failures)
            if encoded:
                found[row] = encoded
    return found, failures


def _read_set(
    name: bytes,
    row: int,
    attributes: list[str],
    acls: bool,
    others: bool,
    failures: list[UnreadableName],
) -> bytes:
    pairs: list[tuple[bytes, bytes]] = []
    for attribute in attributes:
        if not (acls if attribute.startswith(_ACL_PREFIX) else others):
            continue
        try:
            value = os.getxattr(name, attribute, follow_symlinks=False)
        except OSError as error:
            if error.errno != _GONE:
                failures.append(UnreadableName(row, name, error))
            continue
        pair = os.fsencode(attribute), value
        if not is_shadow(*pair):
            pairs.append(pair)
    return encode_xattrs(pairs)


def read_flags(fd: int) -> int:
    """The settable chattr flags of an open file or directory; 0 where the file system has none.

    Raises OSError for an input/output error.
    """
    # A buffer that may be written: for another, ioctl first formats an error that no one sees.
    answer = bytearray(_LONG.size)
    try:
        fcntl.ioctl(fd, _GET_FLAGS, answer)
    except OSError as error:
        if error.errno in _FLAG_ERRORS:
            return 0
        raise
    # The kernel writes an int, whatever size the request number encodes.
    flags: int = _INT.unpack_from(answer)[0]
    return flags & SETTABLE_FLAGS


def read_flags_of(name: bytes, mode: int) -> int:
    """Like `read_flags` for a name in the working directory whose st_mode is `mode`.

    Anything but a regular file or directory has no flags and is not opened. Raises OSError.
    """
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        return 0
    fd = os.open(name, _OPEN_TO_ASK)
    try:
        return read_flags(fd)
    finally:
        os.close(fd)
