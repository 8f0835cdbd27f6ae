"""Handles entries that exist already: keep, adjust, write what differs, or replace.

`--overwrite` decides which (`options.Overwrite`). Replacing means: create the complete new entry
under a temporary name beside the old one, then rename it over the old one; so a failure leaves
the old entry as it was. Only a file of several parts is written in place, and only the parts that
differ. If that fails half-way, the file gets the suffix INCOMPLETE, for it is neither the old
file nor the new one.

An existing inode with several names is never written to and never adjusted, for one of its names
may be outside the target; if anything about it differs it is replaced.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from typing import Final

from strongroom.base.errors import DamageError
from strongroom.engine.restore.content import (
    content_is,
    layout_of,
    part_lengths,
    punch_holes,
    refuse_dead_target,
    write_differing_parts,
)
from strongroom.engine.restore.messages import Tally
from strongroom.engine.restore.metadata import clear_protection
from strongroom.engine.restore.new_entries import EntryMaker
from strongroom.engine.restore.options import Action, Overwrite
from strongroom.engine.restore.removal import Removal
from strongroom.engine.restore.target_directories import pinned, temporary_name
from strongroom.engine.rows.views import RowView
from strongroom.engine.scan.directory import fitting_mtime_ns

INCOMPLETE: Final = b".strongroom-incomplete"
# Not permitted; a program that is being executed.
_NOT_TO_BE_OPENED: Final = (errno.EACCES, errno.EPERM, errno.ETXTBSY)
_OPEN: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def is_kept(row: RowView, status: os.stat_result, overwrite: Overwrite) -> bool:
    """Whether `overwrite` leaves an existing entry alone, whatever its type."""
    return overwrite is Overwrite.NEVER or (
        overwrite is Overwrite.IF_NEWER and row.mtime_ns <= status.st_mtime_ns
    )


class ExistingEntries:
    """Handles existing names of the directory that `maker` has entered."""

    def __init__(
        self, maker: EntryMaker, tally: Tally, overwrite: Overwrite, removal: Removal | None
    ) -> None:
        """removal: removes a directory that is in the place of something else; None: nothing."""
        self._maker = maker
        self._tally = tally
        self._overwrite = overwrite
        self._removal = removal

    def place(self, row: RowView, status: os.stat_result) -> Action:
        """Make the existing entry what `row` says, as far as the policy allows.

        Raises OSError, DamageError; then the entry is unchanged, or named INCOMPLETE.
        """
        if is_kept(row, status, self._overwrite):
            return Action.KEPT
        if stat.S_IFMT(status.st_mode) != stat.S_IFMT(row.mode):
            self.replace(row, status)
            return Action.UPDATED
        if stat.S_ISREG(row.mode):
            return self._place_file(row, status)
        if self._is_same_special(row, status):
            return self._adjust(row, status)
        self.replace(row, status)
        return Action.UPDATED

    def replace(self, row: RowView, status: os.stat_result) -> None:
        """Create `row`, then rename it over the old entry. Raises OSError, DamageError."""
        name = temporary_name()
        self._maker.make(row, name, is_final=False)
        try:
            self.move_over(name, row.name, status)
        except BaseException:
            os.unlink(name)
            raise
        if row.flags and not self._maker.defers_flags(row):
            with pinned(row.name, stat.S_IFMT(row.mode)) as (where, _):
                self._maker.setter.set_flags(where, row.name, row.mode, row.flags)

    def move_over(self, name: bytes, final_name: bytes, status: os.stat_result) -> None:
        """Rename `name` to `final_name`, which exists with `status`. Raises OSError."""
        if stat.S_ISDIR(status.st_mode):
            self._remove_directory(final_name)
        try:
            os.rename(name, final_name)
        except PermissionError:
            if not clear_protection(final_name):
                raise
            os.rename(name, final_name)

    def _remove_directory(self, name: bytes) -> None:
        if self._removal is None:
            try:
                os.rmdir(name)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
                reason = "a directory that is not empty is in its place; --delete removes it"
                raise OSError(error.errno, reason) from error
            return
        self._removal.make_room(self._tally.place, name)

    def _is_same_special(self, row: RowView, status: os.stat_result) -> bool:
        if stat.S_ISLNK(row.mode):
            return os.readlink(row.name) == row.target
        if stat.S_ISCHR(row.mode) or stat.S_ISBLK(row.mode):
            return status.st_rdev == row.rdev
        return True

    def _adjust(self, row: RowView, status: os.stat_result) -> Action:
        """The content is right: set the attributes."""
        if status.st_nlink > 1:
            if self._has_same_attributes(row):
                return Action.UNCHANGED
            self.replace(row, status)
            return Action.UPDATED
        with pinned(row.name, stat.S_IFMT(row.mode)) as (where, present):
            setter = self._maker.setter
            if setter.has_same_attributes(where, row, present):
                return Action.UNCHANGED
            clear_protection(row.name)
            wants_flags = not self._maker.defers_flags(row)
            setter.settle(where, row, present, is_new=False, flags=wants_flags)
        return Action.UPDATED

    def _has_same_attributes(self, row: RowView) -> bool:
        fd = os.open(row.name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            where = b"/proc/self/fd/%d" % fd
            return self._maker.setter.has_same_attributes(where, row, os.fstat(fd))
        finally:
            os.close(fd)

    def _place_file(self, row: RowView, status: os.stat_result) -> Action:
        looks_same = (status.st_size, fitting_mtime_ns(status)) == (row.size, row.mtime_ns)
        if looks_same and self._overwrite is not Overwrite.ALWAYS:
            return self._adjust(row, status)
        layout = layout_of(row)
        part_lengths(row, self._maker.source, layout)
        is_shared = status.st_nlink > 1
        if len(row.parts) > 1 and not is_shared:
            return self._write_differences(row, status)
        if status.st_size == row.size:
            fd = _open_as(row.name, status, os.O_RDONLY)
            if fd is not None:
                try:
                    is_same = content_is(fd, row, layout, self._maker.source)
                finally:
                    os.close(fd)
                if is_same:
                    return self._adjust(row, os.lstat(row.name))
        self.replace(row, status)
        return Action.UPDATED

    def _write_differences(self, row: RowView, status: os.stat_result) -> Action:
        fd = open_to_write(row.name, status)
        if fd is None:
            self.replace(row, status)
            return Action.UPDATED
        layout = layout_of(row)
        try:
            if status.st_size > layout.size_bytes:
                os.ftruncate(fd, layout.size_bytes)
            written = write_differing_parts(fd, row.parts, 0, layout, self._maker.source)
            self._tally.written_bytes += written
            self.finish_in_place(fd, row)
        except (DamageError, OSError) as error:
            self.give_up_in_place(fd, row.name, status, error)
            raise
        finally:
            os.close(fd)
        was_same = (status.st_size, fitting_mtime_ns(status)) == (row.size, row.mtime_ns)
        return Action.UNCHANGED if was_same and not written else Action.UPDATED

    def give_up_in_place(
        self, fd: int, name: bytes, before: os.stat_result, error: DamageError | OSError
    ) -> None:
        """Ensure that a half-written file is taken for neither the old nor the new one.

        Raises an error that says so; returns if the file is unchanged.
        """
        after = os.fstat(fd)
        if (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns):
            return
        set_aside(name)
        if isinstance(error, OSError):
            refuse_dead_target(error)
        reason = f"{error}; what is left of it now ends in {INCOMPLETE.decode()}"
        raise DamageError(reason) from error

    def finish_in_place(self, fd: int, row: RowView) -> None:
        """Set size, holes and attributes of an existing file whose data was written."""
        layout = layout_of(row)
        if os.fstat(fd).st_size != layout.size_bytes:
            os.ftruncate(fd, layout.size_bytes)
        if layout.extents is not None:
            punch_holes(fd, layout)
        wants_flags = not self._maker.defers_flags(row)
        self._maker.setter.settle(fd, row, os.fstat(fd), is_new=False, flags=wants_flags)


def open_to_write(name: bytes, status: os.stat_result) -> int | None:
    """The existing file for reading and writing; None when it cannot be written in place.

    It is the inode of `status`, and it has no other name.
    """
    fd = _open_as(name, status, os.O_RDWR)
    if fd is None and clear_protection(name):
        fd = _open_as(name, status, os.O_RDWR)
    if fd is not None and os.fstat(fd).st_nlink != 1:
        os.close(fd)
        return None
    return fd


def set_aside(name: bytes) -> None:
    """Rename an incomplete file with the suffix INCOMPLETE."""
    with suppress(OSError):
        os.rename(name, name[: 255 - len(INCOMPLETE)] + INCOMPLETE)


def _open_as(name: bytes, status: os.stat_result, access: int) -> int | None:
    try:
        fd = os.open(name, access | _OPEN)
    except OSError as error:
        if error.errno not in _NOT_TO_BE_OPENED:
            raise
        return None
    present = os.fstat(fd)
    if (present.st_dev, present.st_ino) != (status.st_dev, status.st_ino):
        os.close(fd)
        raise OSError(errno.ESTALE, "it was replaced while it was restored", name)
    return fd
