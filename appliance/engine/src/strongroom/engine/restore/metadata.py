"""Sets owner, mode, attributes, ACLs, times and flags of restored entries, in a safe order.

chown drops set-id bits and capabilities, user attributes need a writable mode, an ACL is part of
the mode, flags may forbid all further changes: so owner, attributes of users, mode, ACLs and
other attributes, times, flags. Entries are addressed by an open descriptor, or by a path that
refers to the inode itself (`target_directories.pinned`), or, in a private directory, by name.

What may not be set is a problem of its kind, and the rest is still set. Without the right to
change the owner an entry stays ours, and then loses its set-id bits: it would run with another
user's rights than in the snapshot.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from strongroom.base.printable import printable
from strongroom.engine.restore.options import EntryKind
from strongroom.engine.rows.views import RowView
from strongroom.engine.scan.attributes import SETTABLE_FLAGS, decode_xattrs, is_shadow, read_flags
from strongroom.engine.scan.directory import fitting_mtime_ns

_LONG: Final = struct.Struct("l")
_GET_FLAGS: Final = 0x80006601 | _LONG.size << 16
_SET_FLAGS: Final = 0x40006602 | _LONG.size << 16
_IMMUTABLE: Final = 0x10
_APPEND_ONLY: Final = 0x20
PROTECTING_FLAGS: Final = _IMMUTABLE | _APPEND_ONLY
_JOURNAL_DATA: Final = 0x4000
# Only root can set these; others can still set the other flags.
_PRIVILEGED_FLAGS: Final = PROTECTING_FLAGS | _JOURNAL_DATA
_OPEN_FOR_FLAGS: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_ACL_PREFIX: Final = b"system.posix_acl_"
_BEFORE_MODE: Final = (b"user.", b"trusted.")
# Attributes that an existing entry loses when the snapshot's row has none; labels that the
# system gives by its own policy (SELinux and others) stay.
_REMOVABLE: Final = (b"user.", b"trusted.", b"btrfs.", b"security.capability", _ACL_PREFIX)
_SET_ID_BITS: Final = stat.S_ISUID | stat.S_ISGID

Place = int | bytes


class MetadataSetter:
    """Sets what rows say; reports problems as `problem(kind, name, reason)`."""

    def __init__(self, problem: Callable[[EntryKind, bytes, str], None]) -> None:
        self._problem = problem
        self._is_root = os.geteuid() == 0
        self._refused_owners: set[tuple[int, int]] = set()

    def settle(
        self,
        where: Place,
        row: RowView,
        status: os.stat_result,
        *,
        is_new: bool,
        flags: bool = True,
    ) -> None:
        """Give the entry at `where` everything its row has.

        status: of the entry as it is. is_new: it has no attribute yet. flags: set flags too.
        """
        present = {} if is_new else self._present_xattrs(where, row.name)
        wanted = dict(decode_xattrs(row.xattrs)) if row.xattrs else {}
        surplus = [name for name in present.keys() - wanted.keys() if name.startswith(_REMOVABLE)]
        is_owner = is_same_owner = (status.st_uid, status.st_gid) == (row.uid, row.gid)
        if not is_same_owner:
            is_owner = self._chown(where, row)
            # chown drops capabilities, so they have to be set again.
            present.pop(b"security.capability", None)
        missing = [(name, value) for name, value in wanted.items() if present.get(name) != value]
        if not is_new and (surplus or missing):
            self._make_writable(where, row, status)
        for name in surplus:
            self._remove_xattr(where, row.name, name)
        if surplus:
            # One may have been another view of a wanted attribute, which is gone with it then.
            present = self._present_xattrs(where, row.name)
            missing = [pair for pair in wanted.items() if present.get(pair[0]) != pair[1]]
        for name, value in missing:
            if name.startswith(_BEFORE_MODE):
                self._set_xattr(where, row.name, name, value)
        is_same_mode = is_same_owner and stat.S_IMODE(status.st_mode) == stat.S_IMODE(row.mode)
        if not (is_same_mode and not surplus and not missing) and not stat.S_ISLNK(row.mode):
            self._chmod(where, row, is_owner)
        for name, value in missing:
            if not name.startswith(_BEFORE_MODE):
                self._set_xattr(where, row.name, name, value)
        if is_new or fitting_mtime_ns(status) != row.mtime_ns:
            self.set_times(where, row)
        if flags and (row.flags or not is_new):
            self.set_flags(where, row.name, row.mode, row.flags)

    def settle_plain(self, fd: int, row: RowView) -> None:
        """Give a new entry mode and times, where everything else is right."""
        self._chmod(fd, row, is_owner=True)
        self.set_times(fd, row)

    def has_same_attributes(self, where: Place, row: RowView, status: os.stat_result) -> bool:
        """Whether everything that `settle` sets is already right."""
        if (status.st_mode, status.st_uid, status.st_gid, fitting_mtime_ns(status)) != (
            row.mode,
            row.uid,
            row.gid,
            row.mtime_ns,
        ):
            return False
        wanted = dict(decode_xattrs(row.xattrs)) if row.xattrs else {}
        present = self._present_xattrs(where, row.name)
        kept = {name: value for name, value in present.items() if name.startswith(_REMOVABLE)}
        if kept != {name: wanted[name] for name in wanted if name.startswith(_REMOVABLE)}:
            return False
        if any(present.get(name) != value for name, value in wanted.items()):
            return False
        return self._flags_of(where, row.mode) == row.flags & SETTABLE_FLAGS

    def set_times(self, where: Place, row: RowView) -> None:
        """Set mtime as the row has it, and atime the same."""
        try:
            os.utime(where, ns=(row.mtime_ns, row.mtime_ns))
        except (OSError, OverflowError) as error:
            self._problem(EntryKind.TIMES, row.name, reason_of(error))

    def set_flags(self, where: Place, name: bytes, mode: int, flags: int) -> None:
        """Make the settable chattr flags of a file or directory exactly `flags`."""
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            return
        try:
            fd = where if isinstance(where, int) else os.open(where, _OPEN_FOR_FLAGS)
            try:
                self._set_open_flags(fd, flags)
            finally:
                if fd != where:
                    os.close(fd)
        except OSError as error:
            # An entry that may not be opened has a problem only if there is a flag to set.
            if flags or error.errno not in (errno.EACCES, errno.EPERM):
                self._problem(EntryKind.FLAGS, name, reason_of(error))

    def _set_open_flags(self, fd: int, flags: int) -> None:
        current = read_flags(fd)
        wanted = flags & SETTABLE_FLAGS
        if current == wanted:
            return
        try:
            change_flags(fd, SETTABLE_FLAGS, wanted)
        except OSError as error:
            if error.errno == errno.EPERM and wanted & _PRIVILEGED_FLAGS:
                change_flags(fd, SETTABLE_FLAGS & ~_PRIVILEGED_FLAGS, wanted & ~_PRIVILEGED_FLAGS)
            raise

    def _flags_of(self, where: Place, mode: int) -> int:
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            return 0
        try:
            fd = where if isinstance(where, int) else os.open(where, _OPEN_FOR_FLAGS)
        except PermissionError:
            return 0
        try:
            return read_flags(fd)
        finally:
            if fd != where:
                os.close(fd)

    def _make_writable(self, where: Place, row: RowView, status: os.stat_result) -> None:
        """Without root's rights, user attributes can be set only if the owner may write."""
        if self._is_root or status.st_mode & stat.S_IWUSR or stat.S_ISLNK(row.mode):
            return
        if status.st_uid == os.geteuid():
            os.chmod(where, stat.S_IMODE(status.st_mode) | stat.S_IWUSR)

    def _present_xattrs(self, where: Place, name: bytes) -> dict[bytes, bytes]:
        try:
            names = os.listxattr(where)
            found = {os.fsencode(each): os.getxattr(where, each) for each in names}
            return {each: value for each, value in found.items() if not is_shadow(each, value)}
        except OSError as error:
            if error.errno not in (errno.ENOTSUP, errno.EACCES, errno.ENODATA):
                self._problem(EntryKind.XATTR, name, reason_of(error))
            return {}

    def _remove_xattr(self, where: Place, name: bytes, attribute: bytes) -> None:
        try:
            os.removexattr(where, attribute)
        except OSError as error:
            self._problem(_kind_of(attribute), name, reason_of(error))

    def _set_xattr(self, where: Place, name: bytes, attribute: bytes, value: bytes) -> None:
        try:
            os.setxattr(where, attribute, value)
        except OSError as error:
            shown = printable(attribute)
            self._problem(_kind_of(attribute), name, f"{shown}: {reason_of(error)}")

    def _chown(self, where: Place, row: RowView) -> bool:
        owner = (row.uid, row.gid)
        if owner not in self._refused_owners:
            try:
                os.chown(where, *owner)
                return True
            except OSError as error:
                if error.errno not in (errno.EPERM, errno.EINVAL):
                    self._problem(EntryKind.OWNER, row.name, reason_of(error))
                    return False
                self._refused_owners.add(owner)
        # A group of which we are a member can be set even if the owner cannot.
        try:
            os.chown(where, -1, row.gid)
            kept = "group"
        except OSError:
            kept = "neither owner nor group"
        if kept == "group" and os.geteuid() == row.uid:
            return True
        reason = f"only root may set its owner to {row.uid}:{row.gid} ({kept} could be set)"
        self._problem(EntryKind.OWNER, row.name, reason)
        return False

    def _chmod(self, where: Place, row: RowView, is_owner: bool) -> None:
        mode = stat.S_IMODE(row.mode)
        if not is_owner and mode & _SET_ID_BITS and not stat.S_ISDIR(row.mode):
            mode &= ~_SET_ID_BITS
            reason = "set-id bits left out, for its owner is not the one in the snapshot"
            self._problem(EntryKind.MODE, row.name, reason)
        try:
            os.chmod(where, mode)
        except OSError as error:
            self._problem(EntryKind.MODE, row.name, reason_of(error))
            if mode & _SET_ID_BITS:  # a sandbox may forbid these alone
                with suppress(OSError):
                    os.chmod(where, mode & ~_SET_ID_BITS)


def change_flags(fd: int, mask: int, flags: int) -> None:
    """Make those chattr flags of an open file that are in `mask` as in `flags`. Raises OSError."""
    answer = fcntl.ioctl(fd, _GET_FLAGS, bytes(_LONG.size))
    (current,) = struct.unpack_from("I", answer)
    fcntl.ioctl(fd, _SET_FLAGS, _LONG.pack(current & ~mask | flags))


def clear_protection(name: bytes) -> bool:
    """Clear the immutable and append-only flags of `name` in the working directory.

    Returns whether one was set; never follows a link.
    """
    try:
        fd = os.open(name, _OPEN_FOR_FLAGS | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        if not read_flags(fd) & PROTECTING_FLAGS:
            return False
        change_flags(fd, PROTECTING_FLAGS, 0)
    except OSError:
        return False
    finally:
        os.close(fd)
    return True


def unlink(name: bytes) -> None:
    """Unlink `name` in the working directory, clearing flags if necessary. Raises OSError."""
    try:
        os.unlink(name)
    except PermissionError:
        if not clear_protection(name):
            raise
        os.unlink(name)


def reason_of(error: OSError | OverflowError) -> str:
    """The error of a system call, without the path (which the problem has)."""
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return str(error)


def _kind_of(attribute: bytes) -> EntryKind:
    return EntryKind.ACL if attribute.startswith(_ACL_PREFIX) else EntryKind.XATTR
