"""Directories of a restore: created before their entries, given their attributes at the end.

New directories are private (mode 0700) until everything is restored; then each gets the
attributes in its row, the innermost first, so that times stay and read-only directories can be
filled. These attributes are kept compressed, about twenty bytes a directory.

The rows of a snapshot come in pre-order and all sub-directories of a directory are created at
once, so only the path to the current directory is kept: a stack of levels.
"""

from __future__ import annotations

import errno
import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

import msgspec

from strongroom.base.errors import DamageError
from strongroom.engine.restore.child import RowRestorer
from strongroom.engine.restore.choice import BackedUp
from strongroom.engine.restore.existing_entries import is_kept
from strongroom.engine.restore.metadata import change_flags, clear_protection, reason_of, unlink
from strongroom.engine.restore.options import Action, EntryKind, RestoreOptions
from strongroom.engine.restore.target_directories import PRIVATE_MODE, pinned, status_of
from strongroom.engine.rows.rows import UNREADABLE
from strongroom.engine.rows.views import RowView, join_path, split_path
from strongroom.engine.scan.attributes import SETTABLE_FLAGS
from strongroom.engine.scan.directory import fitting_mtime_ns
from strongroom.engine.scan.privileges import bare_directory

_OPEN: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_BATCH: Final = 1024
NOT_LISTED: Final = "the backup could not list this folder, so what is in it is unknown"
_Record = tuple[bytes, bytes, int, int, int, int, bytes, int, bool, bool]
_ACLS: Final = ("system.posix_acl_default", "system.posix_acl_access")


class Level(msgspec.Struct):
    """A directory on the path to the current one, and what is known of those in it.

    is_new: this restore created it. is_wanted: all of it is to be restored, not only what matches.
    passed_row: its row, while it is only passed. Names in it: existing were there before, lost are
    not to be entered, visited have had their own level, passed are created when something in
    them is wanted. present, position: see `deletion`.
    """

    place: bytes
    is_new: bool
    is_wanted: bool
    passed_row: RowView | None = None
    existing: set[bytes] = set()
    lost: set[bytes] = set()
    visited: set[bytes] = set()
    passed: dict[bytes, RowView] = {}
    present: list[bytes] | None = None
    position: int = 0


class Directories:
    """Creates directories below the target and sets their attributes."""

    def __init__(self, restorer: RowRestorer, options: RestoreOptions, backed_up: BackedUp) -> None:
        self._backed_up = backed_up
        self._restorer = restorer
        self._options = options
        self._is_root = os.geteuid() == 0
        self._levels: list[Level] = []
        self._batch: list[_Record] = []
        self._batches: list[bytes] = []

    def begin(self, *, is_new: bool, is_wanted: bool) -> None:
        """The target itself is the first level."""
        self._levels = [Level(b"", is_new, is_wanted)]

    def descend(self, place: bytes) -> tuple[Level | None, list[Level]]:
        """The level of `place`, None if it cannot or must not be entered; and the levels left.

        `place` is the directory whose rows come next; every level is left after all below it.
        """
        left: list[Level] = []
        while self._levels[-1].place != place:
            top = self._levels[-1]
            parent, name = split_path(place)
            if not place or top.place == parent:
                return self._step_down(top, place, name), left
            if not top.place or place.startswith(top.place + b"/"):
                return None, left  # a directory on the way was left out
            left.append(self._levels.pop())
        return self._levels[-1], left

    def leave_all(self) -> Iterator[Level]:
        """Every level that is still open, the innermost first."""
        while self._levels:
            yield self._levels.pop()

    def _step_down(self, top: Level, place: bytes, name: bytes) -> Level | None:
        if name in top.lost:
            return None
        passed_row = top.passed.get(name)
        is_wanted = passed_row is None
        level = Level(place, name not in top.existing, is_wanted, passed_row)
        top.visited.add(name)
        self._levels.append(level)
        return level

    def make_passed(self) -> bool:
        """Create the directories that were only passed so far, down to the current one.

        Returns whether the current one exists.
        """
        for above, level in zip(self._levels, self._levels[1:], strict=False):
            if level.passed_row is None:
                continue
            row, level.passed_row = level.passed_row, None
            above.passed.pop(row.name, None)
            self.make(above, [row])
            if row.name in above.lost:
                del self._levels[self._levels.index(level) :]
                return False
            level.is_new = row.name not in above.existing
        return True

    def make(self, level: Level, rows: list[RowView]) -> None:
        """Create the directories `rows` in `level`, which exists; errors become problems."""
        if not rows:
            return
        try:
            if self._options.dry_run and level.is_new:
                self._restorer.tally.place = level.place
            else:
                self._restorer.maker.enter(level.place, is_new=level.is_new)
        except OSError as error:
            for row in rows:
                self._problem(level.place, row.name, error)
                level.lost.add(row.name)
            return
        for row in rows:
            self._make_one(level, row)

    def bare(self, place: bytes, row: RowView) -> RowView:
        """The directory `row` in `place` as it is to be; reports the privileges it does not get."""
        if self._options.keeps_privileges:
            return row
        row, lost = bare_directory(row)
        for kind in lost:
            self._restorer.tally.leave_out(kind, place, row.name)
        return row

    def record(self, place: bytes, row: RowView, *, is_new: bool, is_plain: bool = False) -> None:
        """The directory `row` in `place` (b"" and no name: the target) gets attributes later.

        row: as `bare` gives it. is_plain: it is new in a private directory, is owned by whom it
        should be, and gets but mode and time.
        """
        attributes = (row.mode, row.uid, row.gid, row.mtime_ns, row.xattrs, row.flags)
        self._batch.append((place, row.name, *attributes, is_new, is_plain))
        if len(self._batch) >= _BATCH:
            self._batches.append(zlib.compress(msgspec.msgpack.encode(self._batch), 1))
            self._batch = []

    def finish(self) -> None:
        """Give every directory its attributes, in the reverse order of their creation."""
        if self._options.dry_run:
            return
        self._finish_batch(self._batch)
        while self._batches:
            packed = zlib.decompress(self._batches.pop())
            self._finish_batch(msgspec.msgpack.decode(packed, type=list[_Record]))

    def _finish_batch(self, batch: list[_Record]) -> None:
        entered = None
        for record in reversed(batch):
            place, name, mode, uid, gid, mtime_ns, xattrs, flags, is_new, is_plain = record
            row = RowView(
                place, name, mode, uid, gid, 0, mtime_ns, 0, 0, 0, 1, 0, b"", xattrs, flags, 0,
                None, (), b"",
            )  # fmt: skip
            self._restorer.tally.place = place
            try:
                if place != entered:
                    entered = None
                    self._restorer.directories.enter(place)
                    entered = place
                self._settle(row, is_new, is_plain)
            except OSError as error:
                reason = f"its attributes could not be set: {reason_of(error)}"
                self._restorer.tally.problem(EntryKind.ENTRY, name, reason)
            except DamageError as error:
                reason = f"its attributes could not be set: {error}"
                self._restorer.tally.problem(EntryKind.CONTENT, name, reason)

    def _settle(self, row: RowView, is_new: bool, is_plain: bool) -> None:
        setter = self._restorer.maker.setter
        try:
            fd = os.open(row.name or b".", _OPEN)
        except PermissionError:
            with pinned(row.name, stat.S_IFDIR) as (where, status):
                setter.settle(where, row, status, is_new=is_new)
            return
        try:
            if is_plain:
                setter.settle_plain(fd, row)
            else:
                setter.settle(fd, row, os.fstat(fd), is_new=is_new)
        finally:
            os.close(fd)

    def _make_one(self, level: Level, row: RowView) -> None:
        """Runs in the working directory, which is the level's."""
        tally = self._restorer.tally
        if row.state == UNREADABLE:
            tally.problem(EntryKind.UNREAD, row.name, NOT_LISTED)
        row = self.bare(level.place, row)
        try:
            action = self._place(level, row)
            is_plain = action is Action.CREATED and self._is_plain(row)
        except OSError as error:
            level.lost.add(row.name)
            self._problem(level.place, row.name, error)
            return
        if action is Action.CREATED:
            self.record(level.place, row, is_new=True, is_plain=is_plain)
        elif action is not Action.KEPT:
            self.record(level.place, row, is_new=False)
        tally.step(action, row.name)

    def _is_plain(self, row: RowView) -> bool:
        """Of a directory that was just made: see `record`."""
        maker = self._restorer.maker
        return (
            not self._options.dry_run
            and maker.is_private
            and not (row.xattrs or row.flags)
            and maker.learn_owner(row.name) == (row.uid, row.gid)
        )

    def _place(self, level: Level, row: RowView) -> Action:
        status = None if level.is_new else status_of(row.name)
        if status is None:
            try:
                self._make_new(row.name)
            except FileExistsError:
                status = os.lstat(row.name)
            else:
                return Action.CREATED
        if stat.S_ISDIR(status.st_mode):
            level.existing.add(row.name)
            leads_on = not self._backed_up(join_path(level.place, row.name))
            if leads_on or is_kept(row, status, self._options.overwrite):
                return Action.KEPT
            self._make_usable(row.name, status)
            return Action.UPDATED if _differs(row, status) else Action.UNCHANGED
        if is_kept(row, status, self._options.overwrite):
            reason = "another file is kept in its place"
            raise OSError(errno.ENOTDIR, reason, row.name)
        if not self._options.dry_run:
            unlink(row.name)
        self._make_new(row.name)
        return Action.CREATED

    def _make_new(self, name: bytes) -> None:
        if self._options.dry_run:
            return
        os.mkdir(name, 0o700)
        if not self._restorer.maker.is_private:
            make_private(name)

    def _make_usable(self, name: bytes, status: os.stat_result) -> None:
        """Make an existing directory writable; `finish` sets its final attributes."""
        if self._options.dry_run:
            return
        if self._is_root:
            clear_protection(name)
        elif status.st_uid == os.geteuid() and status.st_mode & 0o700 != 0o700:
            with pinned(name, stat.S_IFDIR) as (where, _):
                os.chmod(where, stat.S_IMODE(status.st_mode) | 0o700)

    def _problem(self, place: bytes, name: bytes, error: OSError) -> None:
        tally = self._restorer.tally
        tally.place = place
        tally.problem(EntryKind.ENTRY, name, reason_of(error))


def make_private(name: bytes) -> None:
    """Remove what a new directory inherited from its parent: set-id bit, ACLs, flags."""
    fd = os.open(name, _OPEN)
    try:
        if os.fstat(fd).st_mode != PRIVATE_MODE:
            os.fchmod(fd, 0o700)
        for attribute in _ACLS:
            with suppress(OSError):
                os.removexattr(fd, attribute)
        with suppress(OSError):
            change_flags(fd, SETTABLE_FLAGS, 0)
    finally:
        os.close(fd)


def _differs(row: RowView, status: os.stat_result) -> bool:
    return (status.st_mode, status.st_uid, status.st_gid, fitting_mtime_ns(status)) != (
        row.mode,
        row.uid,
        row.gid,
        row.mtime_ns,
    )
