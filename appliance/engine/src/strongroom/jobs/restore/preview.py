"""A dry run: reports for each row what a restore would do, and changes nothing."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from strongroom.errors import DamageError
from strongroom.jobs.restore.content import content_is, layout_of
from strongroom.jobs.restore.existing_entries import is_kept
from strongroom.jobs.restore.metadata import reason_of
from strongroom.jobs.restore.options import Action, EntryKind, Overwrite
from strongroom.jobs.restore.target_directories import status_of
from strongroom.jobs.restore.worker import RowRestorer
from strongroom.rows.rows import UNREADABLE
from strongroom.rows.views import views
from strongroom.scan.directory import fitting_mtime_ns

if TYPE_CHECKING:
    from strongroom.jobs.restore.content import ContentSource
    from strongroom.jobs.restore.options import RestoreOptions
    from strongroom.jobs.restore.scope import Scope
    from strongroom.rows.rows import Rows
    from strongroom.rows.views import RowView


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
