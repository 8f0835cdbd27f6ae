"""The work of one restoring process: directories of rows, and stretches of very large files.

Every error of an entry is a problem in the tally; only a full or failing target, a failing store
or a bug ends the process.
"""

from __future__ import annotations

import os
import stat

from strongroom.base.errors import DamageError
from strongroom.engine.processes.channel import ChildChannel
from strongroom.engine.restore.content import (
    ContentSource,
    Layout,
    content_is,
    layout_of,
    refuse_dead_target,
    write_differing_parts,
    write_parts,
)
from strongroom.engine.restore.existing_entries import ExistingEntries, is_kept
from strongroom.engine.restore.messages import (
    RestoreRows,
    RestoreTask,
    RowsRestored,
    StretchWritten,
    Tally,
    WriteStretch,
)
from strongroom.engine.restore.metadata import reason_of
from strongroom.engine.restore.new_entries import EntryMaker, create_plain
from strongroom.engine.restore.options import Action, EntryKind, Overwrite, RestoreOptions
from strongroom.engine.restore.removal import Removal
from strongroom.engine.restore.scope import Scope, Spared
from strongroom.engine.restore.stored_content import StoredContent
from strongroom.engine.restore.target_directories import TargetDirectories, status_of
from strongroom.engine.rows.rows import UNREADABLE, Rows, decode_rows
from strongroom.engine.rows.views import RowReader, RowView, views
from strongroom.engine.scan.directory import fitting_mtime_ns

_FORMAT = 0o170000
_OPEN_PARTS = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class RowRestorer:
    """Restores the rows of one directory after the other, from `source` below `root_fd`."""

    def __init__(
        self,
        root_fd: int,
        source: ContentSource,
        options: RestoreOptions,
        scope: Scope | None = None,
    ) -> None:
        """scope: of what may be removed; None: nothing may."""
        self.tally = Tally(tells_steps=options.tells_steps)
        self.directories = TargetDirectories(root_fd)
        self.maker = EntryMaker(self.directories, source, self.tally)
        removal = None if scope is None else Removal(self.directories, scope, _ignore)
        self.existing = ExistingEntries(self.maker, self.tally, options.overwrite, removal)
        # Inodes whose first name does not match the snapshot, so nothing may be linked to it.
        self.unusable: list[tuple[int, int]] = []

    def restore(self, place: bytes, rows: Rows, skipped: frozenset[int], *, is_new: bool) -> None:
        """Restore every row but directories and those `skipped`.

        Raises OperatingSystemError when the target is full, StoreError.
        """
        try:
            self.maker.enter(place, is_new=is_new)
        except OSError as error:
            self.tally.place = place
            reason = f"what belongs in it was not restored: {reason_of(error)}"
            self.tally.problem(EntryKind.ENTRY, b"", reason)
            return
        tally, restore_row = self.tally, self.restore_row
        created = 0
        maker = self.maker
        if is_new and maker.is_private and maker.owner_of_new is not None and not tally.tells_steps:
            source = maker.source
            created, skipped = create_plain(rows, skipped, maker.owner_of_new, source, tally)
            if len(skipped) == rows.row_count:
                tally.actions[Action.CREATED] += created
                return
        reader = RowReader(rows)
        for number in range(rows.row_count):
            if number in skipped:
                continue
            row = reader.view(number)
            if row.mode & _FORMAT == stat.S_IFDIR:
                continue
            action = restore_row(row, is_new)
            if action is Action.CREATED and not tally.tells_steps:
                created += 1
            elif action is not None:
                tally.step(action, row.name)
        tally.actions[Action.CREATED] += created

    def restore_row(self, row: RowView, is_new: bool) -> Action | None:
        """Restore one row of the directory entered; None after a problem."""
        try:
            if row.state == UNREADABLE:
                self.tally.problem(EntryKind.UNREAD, row.name, "the backup could not read it")
                return None
            status = None if is_new else status_of(row.name)
            if status is None:
                try:
                    self.maker.make(row, row.name)
                    return Action.CREATED
                except FileExistsError:
                    status = os.lstat(row.name)
            action = self.existing.place(row, status)
        except DamageError as error:
            self.tally.problem(EntryKind.CONTENT, row.name, str(error))
        except OSError as error:
            refuse_dead_target(error)
            self.tally.problem(EntryKind.ENTRY, row.name, reason_of(error))
        else:
            if action is Action.KEPT and row.link_count > 1:
                self.unusable.append((row.device, row.inode))
            return action
        if row.link_count > 1:
            self.unusable.append((row.device, row.inode))
        return None

    def reply(self) -> RowsRestored:
        """What has been done since the last reply."""
        later, self.maker.flags_for_later = self.maker.flags_for_later, []
        unusable, self.unusable = self.unusable, []
        return RowsRestored(self.tally.take_counts(), unusable, later)

    def write_stretch(self, task: WriteStretch) -> str | None:
        """Write consecutive parts of a large file created (or opened) by the coordinator.

        Returns the reason of a failure, or None.
        """
        write = write_differing_parts if task.compares else write_parts
        layout = Layout(task.size_bytes, task.extents)
        try:
            os.fchdir(self.directories.descriptor(task.place))
            fd = os.open(task.name, _OPEN_PARTS)
            try:
                status = os.fstat(fd)
                if (status.st_dev, status.st_ino) != task.inode or status.st_nlink != 1:
                    return "it was replaced while it was restored"
                self.tally.written_bytes += write(
                    fd, task.parts, task.offset, layout, self.maker.source
                )
            finally:
                os.close(fd)
        except DamageError as error:
            return str(error)
        except OSError as error:
            refuse_dead_target(error)
            return reason_of(error)
        return None


def _ignore(_place: bytes, _reason: Spared) -> None:
    """What stays is reported as the reason why its directory does."""


def serve(channel: ChildChannel[RestoreTask], restorer: RowRestorer, source: StoredContent) -> None:
    """Do tasks until the coordinator closes the channel. Raises ChannelClosedError."""
    while True:
        task = channel.receive()
        if isinstance(task, RestoreRows):
            entries = [
                (entry, decode_rows(entry.rows), frozenset(entry.skipped)) for entry in task.entries
            ]
            source.expect((rows, skipped) for _, rows, skipped in entries)
            for entry, rows, skipped in entries:
                restorer.restore(entry.place, rows, skipped, is_new=entry.is_new)
            channel.send(restorer.reply())
        else:
            if not task.compares:
                source.expect_parts(task.parts)
            reason = restorer.write_stretch(task)
            channel.send(StretchWritten(restorer.tally.take_counts(), reason))


class Preview(RowRestorer):
    """Reports what `restore` would do. Extended attributes and flags are not compared."""

    def __init__(
        self,
        root_fd: int,
        source: ContentSource,
        options: RestoreOptions,
        scope: Scope | None = None,
    ) -> None:
        super().__init__(root_fd, source, options, scope)
        self._overwrite = options.overwrite

    def restore(self, place: bytes, rows: Rows, skipped: frozenset[int], *, is_new: bool) -> None:
        """Count an action for every row but directories and those `skipped`."""
        self.tally.place = place
        if not is_new:
            try:
                self.directories.enter(place)
            except OSError as error:
                self.tally.problem(EntryKind.ENTRY, b"", reason_of(error))
                return
        for number, row in enumerate(views(rows)):
            if stat.S_ISDIR(row.mode) or number in skipped:
                continue
            if row.state == UNREADABLE:
                self.tally.problem(EntryKind.UNREAD, row.name, "the backup could not read it")
                continue
            try:
                action = Action.CREATED if is_new else self._foresee(row)
            except DamageError as error:
                self.tally.problem(EntryKind.CONTENT, row.name, str(error))
            except OSError as error:
                self.tally.problem(EntryKind.ENTRY, row.name, reason_of(error))
            else:
                self.tally.step(action, row.name)

    def _foresee(self, row: RowView) -> Action:
        status = status_of(row.name)
        if status is None:
            return Action.CREATED
        if is_kept(row, status, self._overwrite):
            return Action.KEPT
        seen = (status.st_mode, status.st_uid, status.st_gid, fitting_mtime_ns(status))
        if seen != (row.mode, row.uid, row.gid, row.mtime_ns):
            return Action.UPDATED
        if stat.S_ISLNK(row.mode):
            is_same = os.readlink(row.name) == row.target
        elif stat.S_ISREG(row.mode):
            is_same = status.st_size == row.size and (
                self._overwrite is not Overwrite.ALWAYS or self._has_content(row)
            )
        else:
            is_same = status.st_rdev == row.rdev
        return Action.UNCHANGED if is_same else Action.UPDATED

    def _has_content(self, row: RowView) -> bool:
        fd = os.open(row.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            return content_is(fd, row, layout_of(row), self.maker.source)
        finally:
            os.close(fd)
