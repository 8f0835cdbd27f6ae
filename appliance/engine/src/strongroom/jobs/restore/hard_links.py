"""Further names of files: linked once the file itself is complete.

The first wanted name of an inode is restored like any other row. The others wait until all tasks
up to that one have ended, then they are linked to it. If the first name does not match the
snapshot (it was kept as --overwrite asks, or failed), the next name replaces it.

Memory: one entry for each inode whose names have not all been seen.
"""

from __future__ import annotations

import os
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from strongroom.errors import DamageError
from strongroom.jobs.restore.existing_entries import is_kept
from strongroom.jobs.restore.metadata import reason_of
from strongroom.jobs.restore.options import Action, EntryKind, Overwrite
from strongroom.jobs.restore.target_directories import TargetDirectories, status_of, temporary_name
from strongroom.rows.rows import decode_rows
from strongroom.rows.views import views

if TYPE_CHECKING:
    from collections.abc import Callable

    from strongroom.jobs.restore.messages import Inode
    from strongroom.jobs.restore.worker import RowRestorer
    from strongroom.jobs.workers.marks import Marks
    from strongroom.rows.views import RowView


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
        """`restore_instead` restores a name as a file and calls `is_first` for it."""
        self._restore_instead = restore_instead
        self._restorer = restorer
        self._sources = TargetDirectories(root_fd)
        self._overwrite = overwrite
        self._first: dict[Inode, _FirstName] = {}
        self._names_left: dict[Inode, int] = {}
        self._unusable: set[Inode] = set()
        self._waiting: deque[OtherName] = deque()

    def is_first(self, inode: Inode, place: bytes, name: bytes, link_count: int, mark: int) -> bool:
        """Whether this is the first name of its inode; `mark` is the task that restores it."""
        if inode in self._first:
            return False
        self._first[inode] = _FirstName(place, name, mark)
        self._names_left[inode] = link_count - 1
        return True

    def add(self, name: OtherName) -> None:
        """A name that is not the first of its inode."""
        self._waiting.append(name)

    def cannot_link_to(self, inodes: list[Inode]) -> None:
        """The first names of these inodes do not match the snapshot."""
        self._unusable.update(inodes)

    def has_mark(self, inode: Inode, mark: int) -> None:
        """The first name of `inode` is restored by another task than assumed."""
        self._first[inode] = self._first[inode]._replace(mark=mark)

    def link_ready(self, marks: Marks) -> None:
        """Link the names whose first one is complete, or restore one instead."""
        while self._waiting:
            other = self._waiting[0]
            first = self._first[other.inode]
            if not marks.has_ended(first.mark):
                return
            self._waiting.popleft()
            if other.inode in self._unusable:
                self._unusable.discard(other.inode)
                del self._first[other.inode], self._names_left[other.inode]
                self._restore_instead(other)
                continue
            self._link(other, first)
            self._names_left[other.inode] -= 1
            if self._names_left[other.inode] <= 0:
                del self._names_left[other.inode], self._first[other.inode]

    @property
    def is_waiting(self) -> bool:
        """Whether a name still waits."""
        return bool(self._waiting)

    def _link(self, other: OtherName, first: _FirstName) -> None:
        tally = self._restorer.tally
        tally.place = other.place
        row = next(views(decode_rows(other.rows)))
        try:
            tally.step(self._make_link(other.place, row, first), row.name)
        except OSError as error:
            tally.problem(EntryKind.LINK, row.name, reason_of(error))
        except DamageError as error:
            tally.problem(EntryKind.LINK, row.name, str(error))

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
