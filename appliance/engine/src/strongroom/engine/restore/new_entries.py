"""Creates entries that do not exist yet, in the working directory, with few system calls.

A small file in a private directory, with the default owner of new files, costs four: open, write,
utimensat, close; an empty one two. Anything unusual (another owner, set-id bits, attributes,
flags, a directory with inherited ACLs) takes the slow path through `MetadataSetter.settle`.

A file is created under its final name; if its content cannot be read or written it is removed
again. Until it is complete it is readable by its owner only and its mtime is the current time, so
that what a killed restore leaves behind is neither visible to others nor taken for complete by
the next.

The process's umask must be 0.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from typing import Final

from strongroom.base.errors import DamageError
from strongroom.engine.restore.content import (
    ContentSource,
    check_length,
    layout_of,
    part_lengths,
    write_all,
    write_parts,
)
from strongroom.engine.restore.messages import LateFlags, Tally
from strongroom.engine.restore.metadata import PROTECTING_FLAGS, MetadataSetter, change_flags
from strongroom.engine.restore.target_directories import PRIVATE_MODE, TargetDirectories, pinned
from strongroom.engine.rows.rows import (
    BLOCK_ID_BYTES,
    COLUMN_COUNT,
    GID,
    LINK_COUNT,
    MODE,
    MTIME_NS,
    SIZE,
    UID,
    Rows,
    part_starts,
)
from strongroom.engine.rows.views import RowView
from strongroom.engine.scan.attributes import read_flags

NEW_FILE: Final = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_DEFAULT_ACL: Final = "system.posix_acl_default"
# Flags that only an empty file takes: no copy on write, compression, case folding.
_EARLY_FLAGS: Final = 0x00800000 | 0x00000004 | 0x40000000
_FORMAT: Final = 0o170000
_REGULAR: Final = 0o100000
_SPECIAL_BITS: Final = 0o7000


class EntryMaker:
    """Creates the entries of one directory at a time. For one thread, whose cwd it owns."""

    def __init__(self, directories: TargetDirectories, source: ContentSource, tally: Tally) -> None:
        self._directories = directories
        self._tally = tally
        self._our_uid = os.geteuid()
        self._owner_of_new: tuple[int, int] | None = None
        self._owners_of_new: dict[tuple[int, int, int], tuple[int, int]] = {}
        self._owner_key = (0, 0, 0)
        self.is_private = False
        self.source = source
        self.setter = MetadataSetter(tally.problem)
        # No one but us can have been in it: see `target_directories`.
        # Whether new entries start without attributes: none are inherited from the directory.
        self.is_clean = False
        # Flags that would prevent linking further names.
        self.flags_for_later: list[LateFlags] = []

    def enter(self, place: bytes, *, is_new: bool) -> None:
        """Work in the directory `place` from now on; `is_new`: this restore created it.

        Raises OSError.
        """
        self._tally.place = place
        status = self._directories.enter(place)
        self.is_private = (
            is_new and status.st_mode == PRIVATE_MODE and status.st_uid == self._our_uid
        )
        self.is_clean = self.is_private or not passes_attributes_on()
        self._owner_key = (status.st_dev, status.st_gid, status.st_mode & stat.S_ISGID)
        self._owner_of_new = self._owners_of_new.get(self._owner_key)

    @property
    def owner_of_new(self) -> tuple[int, int] | None:
        """Who owns a new entry of the directory, if that is known yet."""
        return self._owner_of_new

    def learn_owner(self, name: bytes) -> tuple[int, int]:
        """The same, from `name` in the directory, which is new, if it was not known. OSError."""
        if self._owner_of_new is None:
            status = os.lstat(name)
            self._owner_of_new = (status.st_uid, status.st_gid)
            self._owners_of_new[self._owner_key] = self._owner_of_new
        return self._owner_of_new

    def make(self, row: RowView, name: bytes, *, is_final: bool = True) -> None:
        """Create the entry of `row` under `name`, which does not exist.

        is_final: `name` is the row's own, not a temporary one, so that its flags can be set.
        Raises OSError (FileExistsError), DamageError; nothing is left behind then.
        """
        if row.mode & _FORMAT != _REGULAR:
            self._make_special(row, name)
            return
        parts = row.parts
        if len(parts) > 1 or row.extents is not None:
            self._make_large(row, name, is_final)
        elif parts:
            data = self.source.chunk(*parts[0])
            if len(data) != row.size:
                check_length(len(data), layout_of(row))
            self._make_small(row, name, data, is_final)
        else:
            check_length(0, layout_of(row))
            self._make_small(row, name, b"", is_final)

    def open_new(self, row: RowView, name: bytes) -> int:
        """A new file of the row's size under `name`, without content yet. Raises OSError."""
        fd = os.open(name, NEW_FILE, 0o600)
        early = row.flags & _EARLY_FLAGS
        if early:
            # What is refused here is refused again, and reported, when all flags are set.
            with suppress(OSError):
                change_flags(fd, early, early)
        return fd

    def finish_new(self, fd: int, row: RowView, *, is_final: bool = True) -> None:
        """Give a new file, its content written, all its attributes."""
        status = os.fstat(fd)
        if self._owner_of_new is None:
            self._owner_of_new = (status.st_uid, status.st_gid)
            self._owners_of_new[self._owner_key] = self._owner_of_new
        wants_flags = is_final and not self.defers_flags(row)
        self.setter.settle(fd, row, status, is_new=self.is_clean, flags=wants_flags)

    def defers_flags(self, row: RowView) -> bool:
        """Whether the row's flags have to wait for its other names; then records them."""
        if row.link_count > 1 and row.flags & PROTECTING_FLAGS:
            late = LateFlags(self._tally.place, row.name, row.mode, row.flags)
            self.flags_for_later.append(late)
            return True
        return False

    def _is_plain(self, row: RowView) -> bool:
        return (
            (row.uid, row.gid) == self._owner_of_new
            and self.is_clean
            and not (row.xattrs or row.flags or row.mode & _SPECIAL_BITS)
        )

    def _make_small(
        self, row: RowView, name: bytes, data: bytes | memoryview, is_final: bool
    ) -> None:
        if not self._is_plain(row):
            fd = self.open_new(row, name)
            try:
                write_all(fd, data)
                self._tally.written_bytes += len(data)
                self.finish_new(fd, row, is_final=is_final)
            except BaseException:
                os.unlink(name)
                raise
            finally:
                os.close(fd)
            return
        times = (row.mtime_ns, row.mtime_ns)
        if not data and self.is_private:
            os.mknod(name, row.mode)
            os.utime(name, ns=times, follow_symlinks=False)
            return
        fd = os.open(name, NEW_FILE, row.mode & 0o777)
        try:
            if data:
                write_all(fd, data)
                self._tally.written_bytes += len(data)
            os.utime(fd, ns=times)
        except BaseException:
            os.unlink(name)
            raise
        finally:
            os.close(fd)

    def _make_large(self, row: RowView, name: bytes, is_final: bool) -> None:
        layout = layout_of(row)
        part_lengths(row, self.source, layout)
        fd = self.open_new(row, name)
        try:
            os.ftruncate(fd, layout.size_bytes)
            self._tally.written_bytes += write_parts(fd, row.parts, 0, layout, self.source)
            self.finish_new(fd, row, is_final=is_final)
        except BaseException:
            os.unlink(name)
            raise
        finally:
            os.close(fd)

    def _make_special(self, row: RowView, name: bytes) -> None:
        file_type = row.mode & _FORMAT
        if file_type == stat.S_IFLNK:
            os.symlink(row.target, name)
            is_simple = not row.xattrs and (row.uid, row.gid) == self._owner_of_new
            if self.is_private and is_simple:
                times = (row.mtime_ns, row.mtime_ns)
                os.utime(name, ns=times, follow_symlinks=False)
                return
        elif file_type == stat.S_IFSOCK:
            raise OSError(errno.EOPNOTSUPP, "sockets cannot be restored")
        else:
            try:
                os.mknod(name, file_type | 0o600, row.rdev)
            except PermissionError as error:
                raise OSError(error.errno, "only root may make devices", name) from error
        try:
            with pinned(name, file_type) as (where, status):
                if self._owner_of_new is None:
                    self._owner_of_new = (status.st_uid, status.st_gid)
                    self._owners_of_new[self._owner_key] = self._owner_of_new
                self.setter.settle(where, row, status, is_new=self.is_clean)
        except BaseException:
            os.unlink(name)
            raise


def passes_attributes_on() -> bool:
    """Whether new entries inherit an ACL or flags from the working directory."""
    try:
        os.getxattr(b".", _DEFAULT_ACL)
        return True
    except OSError:
        pass
    try:
        fd = os.open(b".", _OPEN_DIRECTORY)
    except OSError:
        return True  # it cannot be read: checking each entry is safer than missing one
    try:
        return read_flags(fd) != 0
    finally:
        os.close(fd)


# Creates the plain files of a new, private directory: most of what a restore does.
#
# Plain is a regular file with one name, in one part, with the default owner of new files and
# nothing but mode and time. Such a file takes four system calls and hardly anything beside them.
# Whatever is not plain, or does not work, is left to `EntryMaker`, which reports what is wrong
# with it.

_PERMISSIONS: Final = 0o777
_DIRECTORY: Final = 0o040000


def create_plain(
    rows: Rows,
    skipped: frozenset[int],
    owner: tuple[int, int],
    source: ContentSource,
    tally: Tally,
) -> tuple[int, frozenset[int]]:
    """Create the plain files among `rows` in the working directory, which is new and private.

    owner: that of new entries. Returns how many were created, and those that need nothing more:
    they, the ones skipped, and directories. Raises StoreError.
    """
    columns = memoryview(rows.stats).cast("q")
    modes, uids, gids, sizes, mtimes, links = (
        columns[column::COLUMN_COUNT].tolist()
        for column in (MODE, UID, GID, SIZE, MTIME_NS, LINK_COUNT)
    )
    special = skipped.union(rows.xattrs, rows.flags, rows.extents, rows.states)
    counts, starts = rows.part_counts, part_starts(rows)
    blocks, slots = rows.part_blocks, rows.part_slots
    chunk = source.chunk
    done = set(skipped)
    created = written_bytes = 0
    for number, name in enumerate(rows.name_list()):
        mode = modes[number]
        if mode & ~_PERMISSIONS != _REGULAR:
            if mode & _FORMAT == _DIRECTORY:
                done.add(number)
            continue
        if (
            counts[number] != 1
            or links[number] != 1
            or number in special
            or (uids[number], gids[number]) != owner
        ):
            continue
        part = starts[number]
        block_id = blocks[part * BLOCK_ID_BYTES : (part + 1) * BLOCK_ID_BYTES]
        try:
            data = chunk(block_id, slots[part])
            if len(data) != sizes[number]:
                continue
            fd = os.open(name, NEW_FILE, mode & _PERMISSIONS)
        except (OSError, DamageError):
            continue
        try:
            write_all(fd, data)
            mtime_ns = mtimes[number]
            os.utime(fd, ns=(mtime_ns, mtime_ns))
        except OSError:
            os.unlink(name)
            continue
        except BaseException:
            os.unlink(name)
            raise
        finally:
            os.close(fd)
        written_bytes += sizes[number]
        created += 1
        done.add(number)
    tally.written_bytes += written_bytes
    return created, frozenset(done)
