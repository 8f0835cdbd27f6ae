"""Atomic writes of small files, some of them secret: keys, certificates, lists.

A file is written under a temporary name, synced and then renamed, so a crash leaves the old or the
new one.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat

from strongroom.base import clock
from strongroom.base.errors import UsageError

SECRET_MODE = 0o600
PUBLIC_MODE = 0o644
_LONGEST_LINE_BYTES = 4096


def write_file(path: bytes, data: bytes, mode: int) -> None:
    """Replace file `path` by `data`, durably.

    Its owner is kept; a new file gets the owner of its folder. Root may thus write what a daemon of
    another user reads. Only a file is replaced, no device such as /dev/null. Raises OSError.
    """
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise OSError(errno.EINVAL, "it is there and is not a file; name another", path)
    folder, name = os.path.split(path)
    beside = os.path.join(folder, b".%s.%s" % (name, clock.random_bytes(6).hex().encode()))
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with open(descriptor, "wb") as file:
            os.fchmod(file.fileno(), mode)
            give_to_owner(path, file.fileno())
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.rename(beside, path)
    except BaseException:
        os.unlink(beside)
        raise
    sync_folder(folder)


def sync_folder(folder: bytes) -> None:
    """Sync a folder: names that were made, changed or removed in it."""
    descriptor = os.open(folder or b".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_bounded(path: bytes, limit_bytes: int) -> bytes:
    """The whole of a small file; UsageError when it is larger. Raises OSError."""
    with open(path, "rb") as file:
        data = file.read(limit_bytes + 1)
    if len(data) > limit_bytes:
        raise UsageError(f"{os.fsdecode(path)} is larger than {limit_bytes} bytes: not ours")
    return data


def first_line(path: str) -> bytes:
    """The first line of a file with a passphrase, without its end.

    Raises UsageError where it cannot be read or is empty.
    """
    try:
        with open(os.fsencode(path), "rb") as file:
            line = file.readline(_LONGEST_LINE_BYTES).rstrip(b"\r\n")
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    if not line:
        raise UsageError(f"the first line of {path} is empty")
    return line


def make_private_folder(path: bytes) -> None:
    """Make a folder and its parents, accessible to the owner only. Raises OSError."""
    os.makedirs(path, mode=0o700, exist_ok=True)


def give_to_owner(path: bytes, descriptor: int) -> None:
    """Give an open file the owner that file `path` has, or else its folder; root only can."""
    if os.geteuid() != 0:
        return
    try:
        owner = os.lstat(path)
    except FileNotFoundError:
        owner = os.stat(os.path.dirname(path) or b".")
    now = os.fstat(descriptor)
    # The unit of a schedule may not change owners, and has nothing to give away.
    if (now.st_uid, now.st_gid) != (owner.st_uid, owner.st_gid):
        os.fchown(descriptor, owner.st_uid, owner.st_gid)


def give_tree(folder: bytes, owner: str) -> None:
    """Give a folder and all in it to a user. Raises UsageError for an unknown one, OSError.

    The owner until now may change the folder meanwhile: nothing outside of it is given away.
    """
    import pwd

    try:
        user = pwd.getpwnam(owner)
    except KeyError as error:
        raise UsageError(f"there is no user {owner!r}") from error
    # Neither a symbolic link is followed nor one that takes the place of a folder on the way.
    for _, folders, names, descriptor in os.fwalk(os.path.realpath(folder)):
        os.fchown(descriptor, user.pw_uid, user.pw_gid)
        for name in (*folders, *names):
            with contextlib.suppress(FileNotFoundError):
                os.chown(name, user.pw_uid, user.pw_gid, dir_fd=descriptor, follow_symlinks=False)
