"""Streams the rows of a snapshot once, in order, and restores them.

Directories are created here, ahead of their rows; files are restored by the children; further names
of a file are linked here once it is complete; very large files are started and finished here;
entries that are not in the snapshot are removed here. Memory holds the path to the current
directory, names of inodes with further names to come, and compressed attributes of directories.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final, TypeAlias

import numpy as np

from strongroom.base.errors import PathNotFoundError
from strongroom.base.printable import printable
from strongroom.engine.processes.channel import RowsEntry
from strongroom.engine.processes.windows import Marks, Windows
from strongroom.engine.repository.listing.reader import Listing
from strongroom.engine.repository.snapshots import Snapshot
from strongroom.engine.restore.child import RowRestorer
from strongroom.engine.restore.choice import (
    LEFT_OUT,
    PASSED,
    WANTED,
    BackedUp,
    Choice,
    rows_of_places,
)
from strongroom.engine.restore.content import layout_of
from strongroom.engine.restore.deletion import Deletions
from strongroom.engine.restore.directories import NOT_LISTED, Directories, Level
from strongroom.engine.restore.hard_links import Links, OtherName
from strongroom.engine.restore.large_files import LARGE_BYTES, LargeFiles
from strongroom.engine.restore.messages import (
    LateFlags,
    RestorePool,
    RestoreReply,
    RestoreRows,
    RowsRestored,
)
from strongroom.engine.restore.metadata import reason_of
from strongroom.engine.restore.options import EntryKind, RestoreOptions
from strongroom.engine.restore.scope import Scope
from strongroom.engine.restore.target_directories import check_names, check_path
from strongroom.engine.rows.entry_counts import data_sizes
from strongroom.engine.rows.rows import (
    COLUMN_COUNT,
    DEVICE,
    INODE,
    LINK_COUNT,
    MODE,
    UNREADABLE,
    Rows,
    decode_rows,
    encode_rows,
    slice_rows,
)
from strongroom.engine.rows.views import RowView, join_path, split_path, views
from strongroom.engine.scan.privileges import without_privileges

Stats: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"

_FORMAT: Final = 0o170000
_REGULAR: Final = 0o100000
_DIRECTORY: Final = 0o040000
_FEW_ROWS: Final = 4
_LIGHT_FILE_BYTES: Final = 16 << 10


class RestoreStream:
    """One restore in progress, in the coordinating process.

    restorer: works in this process; its tally is read by `report(rows done, bytes done)` at every
    call. pool: None in a dry run, which does everything here.
    """

    def __init__(
        self,
        listing: Listing,
        snapshot: Snapshot,
        options: RestoreOptions,
        restorer: RowRestorer,
        pool: RestorePool | None,
        root_fd: int,
        report: Callable[[int, int], None],
        scope: Scope | None = None,
    ) -> None:
        """listing: of `snapshot`. scope: of what is deleted; None: nothing is."""
        self._listing = listing
        self._choice = Choice(options.includes, options.excludes)
        self._options = options
        self._restorer = restorer
        self._pool = pool
        self._report = report
        self._marks = Marks()
        self._last_place: bytes | None = None
        self._windows = Windows(
            self._submit,
            self._marks,
            0 if options.subpath else snapshot.totals.data_bytes,
            options.process_count(),
        )
        self._links = Links(restorer, root_fd, options.overwrite, self._restore_instead)
        self._large = None
        if pool is not None:
            self._large = LargeFiles(restorer, pool, self._marks, options.overwrite)
        row = listing.lookup(options.subpath)
        self._top = row
        # Whether the target itself gets attributes from the snapshot.
        self.has_target_row = False
        self._is_file = row is not None and not stat.S_ISDIR(row.mode)
        # The snapshot's path that corresponds to the target.
        self._base = b"" if options.in_place else options.subpath
        if self._is_file:
            self._base = split_path(self._base)[0]
        self._backed_up = BackedUp(snapshot.paths, self._base)
        self._directories = Directories(restorer, options, self._backed_up)
        self._deletions: Deletions | None = None
        # What is beside a single file was not asked about.
        if scope is not None and not self._is_file:
            self._deletions = Deletions(restorer, scope, self._backed_up, dry_run=options.dry_run)
        self._flags_for_later: list[LateFlags] = []

    def run(self, *, target_is_new: bool) -> None:
        """Restore everything. Raises PathNotFoundError, DamageError, StoreError, ..."""
        path, row = self._options.subpath, self._top
        if row is None and path:
            shown = printable(path)
            raise PathNotFoundError(f"the snapshot has no /{shown}; list it with strongroom ls")
        is_wanted = self._choice.includes(path)
        self._directories.begin(is_new=target_is_new, is_wanted=is_wanted)
        if self._options.in_place:
            self._lead_to(path)
        elif row is not None and not self._is_file and target_is_new:
            # One that was there keeps all its attributes: they protect what else is in it.
            own = self._directories.bare(b"", row._replace(name=b""))
            self._directories.record(b"", own, is_new=False)
            self.has_target_row = True
        # In place one below the root is reported where it is made.
        is_reported_later = self._options.in_place and bool(path)
        is_unread = row is not None and not self._is_file and row.state == UNREADABLE
        if is_unread and not is_reported_later:
            self._restorer.tally.place = b""
            self._restorer.tally.problem(EntryKind.UNREAD, b"", NOT_LISTED)
        if self._deletions is not None:
            # It may have no rows, and so no level of its own later.
            level, _ = self._directories.descend(self._place_of(path))
            if level is not None:
                self._deletions.begin(level)
        for rows in self._rows():
            self._take(rows)
        for level in self._directories.leave_all():
            self._leave(level)
        self._windows.flush()
        self._settle()
        self._set_late_flags()
        self._directories.finish()
        self._report(0, 0)

    def abort(self) -> None:
        """Leave no half-written file behind; the children have ended."""
        if self._large is not None:
            self._large.abort()

    def _rows(self) -> Iterable[Rows]:
        path = self._options.subpath
        if not self._is_file:
            # What is deleted is compared with all that the snapshot has.
            if self._options.includes is None or self._deletions is not None:
                return self._listing.rows(path)
            return rows_of_places(self._listing, path, self._options.includes.places())
        directory, name = split_path(path)
        return [slice_rows(next(iter(self._listing.directory_from(directory, name))), 0, 1)]

    def _place_of(self, path: bytes) -> bytes:
        return path[len(self._base) :].lstrip(b"/") if self._base else path

    def _lead_to(self, path: bytes) -> None:
        """In place: create the missing directories down to `path`."""
        steps = path.split(b"/") if path else []
        place = b""
        for number, name in enumerate(steps):
            level, _ = self._directories.descend(place)
            place = join_path(place, name)
            row = self._listing.lookup(place)
            if level is None or row is None or not stat.S_ISDIR(row.mode):
                return
            status = None
            with suppress(OSError):
                self._restorer.directories.enter(level.place)
                status = os.lstat(name)
            if number < len(steps) - 1 and status is not None and stat.S_ISDIR(status.st_mode):
                level.existing.add(name)
            else:
                self._directories.make(level, [row])

    def _take(self, rows: Rows) -> None:
        names = rows.name_list()
        if not rows.directory and names[:1] == [b""]:
            self._take_root(rows)
            rows, names = slice_rows(rows, 1, rows.row_count), names[1:]
        if not names:
            return
        check_path(rows.directory)
        check_names(names, rows.names)
        place = self._place_of(rows.directory)
        level, left = self._directories.descend(place)
        for gone in left:
            self._leave(gone)
        if level is not None:
            self._take_level(level, rows, names)

    def _take_root(self, rows: Rows) -> None:
        """Apply the row of "/" only if the target is "/" or was created by this restore."""
        row = next(views(rows, 0, 1))
        wants_root = self._options.in_place and not self._options.subpath
        if wants_root and self._choice.takes_all and self._backed_up(b""):
            self._directories.record(b"", self._directories.bare(b"", row), is_new=False)

    def _take_level(self, level: Level, rows: Rows, names: list[bytes]) -> None:
        stats = np.frombuffer(rows.stats, "<i8").reshape(-1, COLUMN_COUNT)
        are_directories = stats[:, MODE] & _FORMAT == _DIRECTORY
        skipped: set[int] = set()
        if not self._choice.takes_all and not self._choose(
            level, rows, names, are_directories.tolist(), skipped
        ):
            return
        bare = self._bare(level, rows, names, skipped, are_directories)
        if self._deletions is not None:
            self._deletions.begin(level)
        found = [n for n in np.flatnonzero(are_directories).tolist() if n not in skipped]
        self._directories.make(level, _views_of(rows, found))
        if self._deletions is not None:
            self._deletions.compare(level, names)
        if len(skipped) + len(found) == len(names):
            return
        if self._pool is None:
            self._restorer.restore(level.place, bare, frozenset(skipped), is_new=level.is_new)
            self._report(len(names), 0)
        else:
            self._hand_out(level, bare, names, stats, skipped)

    def _bare(
        self, level: Level, rows: Rows, names: list[bytes], skipped: set[int], are_directories: Any
    ) -> Rows:
        """The rows without privileges, unless those are kept; devices are skipped.

        Reports what is lost, except of directories, which `Directories` makes bare itself.
        """
        if self._options.keeps_privileges:
            return rows
        bare, lost, devices = without_privileges(rows)
        for number, kind in lost:
            if number not in skipped and not are_directories[number]:
                self._restorer.tally.leave_out(kind, level.place, names[number])
        skipped.update(devices)
        return bare

    def _hand_out(
        self, level: Level, rows: Rows, names: list[bytes], stats: Stats, skipped: set[int]
    ) -> None:
        mark = self._marks.begin()
        formats = stats[:, MODE] & _FORMAT
        linked = np.flatnonzero((stats[:, LINK_COUNT] > 1) & (formats != _DIRECTORY))
        for number in linked.tolist():
            if number not in skipped:
                self._take_link(level, rows, names[number], number, stats[number], mark, skipped)
        sizes = np.where(formats == _REGULAR, data_sizes(rows), 0)
        large = [n for n in np.flatnonzero(sizes >= LARGE_BYTES).tolist() if n not in skipped]
        skipped.update(large)
        if skipped:
            sizes[sorted(skipped)] = 0
        if len(skipped) < len(names):
            held = mark if len(linked) else 0
            size = int(sizes.sum())
            self._windows.add(level.place, rows, skipped, size, is_new=level.is_new, mark=held)
        self._marks.end(mark)
        for row in _views_of(rows, large):
            self._begin_large(row, level)
        self._follow_up()

    def _choose(
        self,
        level: Level,
        rows: Rows,
        names: list[bytes],
        are_directories: list[bool],
        skipped: set[int],
    ) -> bool:
        """Skip what is not wanted; returns whether anything is wanted and the level can hold it."""
        chosen = self._choice.choose(
            rows.directory, names, are_directories, is_wanted=level.is_wanted
        )
        passed = [n for n, value in enumerate(chosen) if value == PASSED]
        level.passed.update((row.name, row) for row in _views_of(rows, passed))
        for number, value in enumerate(chosen):
            if value != WANTED:
                skipped.add(number)
            if value == LEFT_OUT and are_directories[number]:
                level.lost.add(names[number])
        return WANTED in chosen and self._directories.make_passed()

    def _take_link(
        self,
        level: Level,
        rows: Rows,
        name: bytes,
        number: int,
        status: Stats,
        mark: int,
        skipped: set[int],
    ) -> None:
        inode = (int(status[DEVICE]), int(status[INODE]))
        if not self._links.is_first(inode, level.place, name, int(status[LINK_COUNT]), mark):
            skipped.add(number)
            one = encode_rows(slice_rows(rows, number, number + 1))
            self._links.add(OtherName(level.place, level.is_new, inode, one))

    def _begin_large(self, row: RowView, level: Level) -> None:
        assert self._large is not None
        mark = self._marks.begin()
        if row.link_count > 1:
            self._links.has_mark((row.device, row.inode), mark)
        self._large.restore(row, level.place, mark, is_new=level.is_new)
        self._report(1, layout_of(row).content_bytes)

    def _leave(self, level: Level) -> None:
        if self._deletions is not None:
            self._deletions.end(level)

    def _submit(
        self, entries: list[RowsEntry], marks: list[int], row_count: int, content_bytes: int
    ) -> None:
        assert self._pool is not None

        def done(reply: RestoreReply) -> None:
            assert isinstance(reply, RowsRestored)
            self._restorer.tally.add_counts(reply.counts)
            self._links.cannot_link_to(reply.unusable)
            self._flags_for_later += reply.late_flags
            for mark in marks:
                self._marks.end(mark)
            self._report(row_count, content_bytes)

        # Processes that create small files in the same directory contend for its lock.
        continues = entries[0].place == self._last_place and len(entries) == 1
        is_light = content_bytes < row_count * _LIGHT_FILE_BYTES
        self._last_place = entries[-1].place
        self._pool.submit(RestoreRows(entries), done, by_last_child=continues and is_light)

    def _follow_up(self) -> None:
        """Link what can be linked already."""
        self._links.cannot_link_to(self._restorer.unusable)
        self._restorer.unusable.clear()
        self._links.link_ready(self._marks)

    def _settle(self) -> None:
        """Wait until every task has ended and every name is linked or restored."""
        if self._pool is None:
            return
        self._pool.drain()
        self._follow_up()
        while self._links.is_waiting:
            self._pool.drain()
            self._follow_up()
        self._pool.drain()

    def _restore_instead(self, other: OtherName) -> None:
        """The first name of an inode failed or cannot be linked to: restore this one as a file."""
        row = next(views(decode_rows(other.rows)))
        mark = self._marks.begin()
        self._links.is_copy(other.inode, other.place, row.name, mark)
        entry = RowsEntry(other.place, other.is_new, [], other.rows)
        self._submit([entry], [mark], 1, max(0, row.size))

    def _set_late_flags(self) -> None:
        """Set the flags that forbid linking, after the last link."""
        maker, tally = self._restorer.maker, self._restorer.tally
        later = self._flags_for_later + maker.flags_for_later
        for late in later:
            tally.place = late.place
            try:
                self._restorer.directories.enter(late.place)
                fd = os.open(late.name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
                try:
                    path = b"/proc/self/fd/%d" % fd
                    maker.setter.set_flags(path, late.name, late.mode, late.flags)
                finally:
                    os.close(fd)
            except OSError as error:
                tally.problem(EntryKind.FLAGS, late.name, reason_of(error))


def _views_of(rows: Rows, numbers: list[int]) -> list[RowView]:
    if len(numbers) <= _FEW_ROWS:
        return [next(views(rows, number, number + 1)) for number in numbers]
    wanted = set(numbers)
    return [row for number, row in enumerate(views(rows)) if number in wanted]
