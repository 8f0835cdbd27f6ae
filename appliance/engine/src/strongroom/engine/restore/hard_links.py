"""Further names of files: linked once the file itself is complete.

The first wanted name of an inode is restored like any other row. The others wait until all tasks
up to that one have ended, then they are linked to it. If the first name does not match the
snapshot (it was kept as --overwrite asks, or failed), the next name replaces it. A name that cannot
be linked to it (it is on another file system, or this one has no links or no more of them) becomes
its own copy, to which further names are linked where that is possible.

Memory: one entry for each inode whose names have not all been seen.
"""

from __future__ import annotations

import errno
import os
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from strongroom.base.errors import DamageError
from strongroom.base.printable import printable
from strongroom.engine.processes.windows import Marks
from strongroom.engine.restore.child import RowRestorer
from strongroom.engine.restore.existing_entries import is_kept
from strongroom.engine.restore.messages import Inode
from strongroom.engine.restore.metadata import reason_of
from strongroom.engine.restore.options import Action, EntryKind, Overwrite
from strongroom.engine.restore.target_directories import (
    TargetDirectories,
    status_of,
    temporary_name,
)
from strongroom.engine.rows.rows import decode_rows
from strongroom.engine.rows.views import RowView, join_path, views

# The name cannot be another one of that file, but can hold the same content.
_NOT_TO_BE_LINKED: Final = frozenset(
    (
        errno.EXDEV, errno.EMLINK, errno.EPERM, errno.EACCES, errno.ENOTSUP, errno.ENOSYS,
        errno.EINVAL, errno.ENOENT,
    )
)  # fmt: skip
# Copies that a further name is tried with: each is on its own file system, or was full.
_MOST_COPIES: Final = 4


class _FirstName(NamedTuple):
    place: bytes
    name: bytes
    mark: int


class OtherName(NamedTuple):
    """A name that waits to be linked; `rows`: its row, encoded; `is_new`: its directory is new."""

    place: bytes
    is_new: bool
    inode: Inode
    rows: bytes


class Links:
    """Remembers first names and links the others to them."""

    def __init__(
        self,
        restorer: RowRestorer,
        root_fd: int,
        overwrite: Overwrite,
        restore_instead: Callable[[OtherName], None],
    ) -> None:
        """`restore_instead` restores a name as a file and calls `is_copy` for it."""
        self._restore_instead = restore_instead
        self._restorer = restorer
        self._sources = TargetDirectories(root_fd)
        self._overwrite = overwrite
        # The newest last; all but that one are complete.
        self._first: dict[Inode, list[_FirstName]] = {}
        self._names_left: dict[Inode, int] = {}
        self._unusable: set[Inode] = set()
        self._waiting: deque[OtherName] = deque()
        self._has_reported_why = False

    def is_first(self, inode: Inode, place: bytes, name: bytes, link_count: int, mark: int) -> bool:
        """Whether this is the first name of its inode; `mark` is the task that restores it."""
        if inode in self._first:
            return False
        self._first[inode] = [_FirstName(place, name, mark)]
        self._names_left[inode] = link_count - 1
        return True

    def is_copy(self, inode: Inode, place: bytes, name: bytes, mark: int) -> None:
        """The name is restored as its own file by the task of `mark`."""
        self._first[inode] = [
            *self._first[inode][1 - _MOST_COPIES :],
            _FirstName(place, name, mark),
        ]

    def add(self, name: OtherName) -> None:
        """A name that is not the first of its inode."""
        self._waiting.append(name)

    def cannot_link_to(self, inodes: list[Inode]) -> None:
        """The first names of these inodes do not match the snapshot."""
        self._unusable.update(inodes)

    def has_mark(self, inode: Inode, mark: int) -> None:
        """The first name of `inode` is restored by another task than assumed."""
        self._first[inode][-1] = self._first[inode][-1]._replace(mark=mark)

    def link_ready(self, marks: Marks) -> None:
        """Link the names whose first one is complete, or restore one instead."""
        while self._waiting:
            other = self._waiting[0]
            first = self._first[other.inode]
            if not marks.has_ended(first[-1].mark):
                return
            self._waiting.popleft()
            if other.inode in self._unusable:
                self._unusable.discard(other.inode)
                first.pop()
                self._restore_instead(other)
            elif not self._link(other, first):
                self._restore_instead(other)
            self._names_left[other.inode] -= 1
            if self._names_left[other.inode] <= 0:
                del self._names_left[other.inode], self._first[other.inode]

    @property
    def is_waiting(self) -> bool:
        """Whether a name still waits."""
        return bool(self._waiting)

    def _link(self, other: OtherName, first: list[_FirstName]) -> bool:
        """Whether the name is settled; else it is to become its own copy."""
        tally = self._restorer.tally
        tally.place = other.place
        row = next(views(decode_rows(other.rows)))
        try:
            for one in reversed(first):
                try:
                    tally.step(self._make_link(other.place, row, one), row.name)
                    return True
                except OSError as error:
                    if error.errno not in _NOT_TO_BE_LINKED:
                        raise
                    refusal = error
        except OSError as error:
            tally.problem(EntryKind.LINK, row.name, reason_of(error))
            return True
        except DamageError as error:
            tally.problem(EntryKind.LINK, row.name, str(error))
            return True
        if not self._has_reported_why:
            self._has_reported_why = True
            path = printable(join_path(first[0].place, first[0].name))
            tally.problem(
                EntryKind.LINK,
                row.name,
                f"it cannot be another name of {path} here ({reason_of(refusal)}), so it becomes "
                "itsown file with the same content, as do all further names of this kind",
            )
        return False

    def _make_link(self, place: bytes, row: RowView, first: _FirstName) -> Action:
        self._restorer.directories.enter(place)
        source = self._sources.descriptor(first.place)
        status = status_of(row.name)
        if status is None:
            os.link(first.name, row.name, src_dir_fd=source, follow_symlinks=False)
            return Action.CREATED
        if is_kept(row, status, self._overwrite):
            return Action.KEPT
        wanted = os.lstat(first.name, dir_fd=source)
        if (wanted.st_dev, wanted.st_ino) == (status.st_dev, status.st_ino):
            return Action.UNCHANGED
        name = temporary_name()
        os.link(first.name, name, src_dir_fd=source, follow_symlinks=False)
        try:
            self._restorer.existing.move_over(name, row.name, status)
        except BaseException:
            os.unlink(name)
            raise
        return Action.UPDATED
