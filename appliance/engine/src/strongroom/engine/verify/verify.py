"""Compare a snapshot, or a part of it, with a live tree.

Every row is compared with the live entry: type, owner, mode, size, mtime, link target, device
number, extended attributes, ACLs, flags and which names are one inode; and, when asked, content:
chunk by chunk against the chunks' ids, or as a whole against the rows' signatures. Neither needs
the stored content, so no data is fetched. Entries that only the tree has are searched for below
the paths that were backed up; what the backup left out does not count (`restore.scope`).

Nothing is changed, and no link is followed. One process streams the listing and looks for extra
entries; forked processes (`child`) compare.
"""

from __future__ import annotations

import ctypes
import errno
import gc
import os
import stat
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from contextlib import AbstractContextManager, closing
from typing import Protocol, TypeAlias

import msgspec
import numpy as np

from strongroom.base.clock import elapsed_seconds
from strongroom.base.errors import NothingMatchedError, OperatingSystemError, PathNotFoundError
from strongroom.base.printable import printable
from strongroom.base.progress import NullProgress, Progress
from strongroom.engine.processes.channel import ChildChannel, RowsEntry
from strongroom.engine.processes.pool import ProcessPool
from strongroom.engine.processes.windows import Marks, Windows
from strongroom.engine.repository.index.block_rows import PlacesByClient
from strongroom.engine.repository.listing.reader import Listing
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.snapshots import Snapshot
from strongroom.engine.restore.choice import LEFT_OUT, WANTED, BackedUp, Choice
from strongroom.engine.restore.metadata import reason_of
from strongroom.engine.restore.removal import Removal
from strongroom.engine.restore.scope import Scope, program_folders, store_folders
from strongroom.engine.restore.stored_content import StoredContent
from strongroom.engine.restore.target_directories import (
    TargetDirectories,
    check_names,
    check_path,
    status_of,
)
from strongroom.engine.rows.entry_counts import data_sizes
from strongroom.engine.rows.rows import COLUMN_COUNT, MODE, Rows, slice_rows
from strongroom.engine.rows.views import join_path, split_path
from strongroom.engine.scan.privileges import without_privileges
from strongroom.engine.verify.child import (
    CompareRows,
    RowComparer,
    RowsCompared,
    decode_reply,
    decode_task,
    serve,
)
from strongroom.engine.verify.options import LiveDifference, VerifyOptions, VerifyReport

_Pool: TypeAlias = ProcessPool[CompareRows, RowsCompared]

_CACHE_BYTES = 8 << 20
_LISTING_PAGES = 4
_FORMAT = 0o170000
_MISSING = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


class VerifyObserver(Protocol):
    """Receives differences."""

    def difference(self, difference: LiveDifference) -> None:
        """Something differs from the snapshot."""


def verify(
    repository: Repository,
    snapshot: Snapshot,
    options: VerifyOptions,
    show: Callable[[], AbstractContextManager[Progress]],
    observer: VerifyObserver,
) -> VerifyReport:
    """Compare `snapshot` (read with its pages) with the tree at `options.root`.

    `show` gives the progress; it is entered after the children were forked. Raises
    PathNotFoundError when the snapshot has no such sub-path, NothingMatchedError when the includes
    match nothing in it, OperatingSystemError when the root cannot be opened, DamageError when
    the listing is not sound, StoreError.
    """
    return _Verification(repository, snapshot, options, observer).run(show)


class _Level(msgspec.Struct):
    """A directory on the path to the current one."""

    place: bytes
    is_wanted: bool
    lost: set[bytes] = set()
    passed: set[bytes] = set()
    below: set[bytes] = set()
    present: list[bytes] | None = None
    position: int = 0


class _Verification:
    def __init__(
        self,
        repository: Repository,
        snapshot: Snapshot,
        options: VerifyOptions,
        observer: VerifyObserver,
    ) -> None:
        self._repository = repository
        self._snapshot = snapshot
        self._options = options
        self._observer = observer
        self._progress: Progress = NullProgress()
        self._choice = Choice(options.includes, options.excludes)
        self._base = options.base
        self._backed_up = BackedUp(snapshot.paths, options.base)
        self._row_count = 0
        self._has_match = False
        self._finds_extra = self._searched_extra = options.finds_extra
        self._read_bytes = 0
        self._differences: Counter[str] = Counter()
        self._live_of: dict[tuple[int, int], tuple[int, int]] = {}
        self._stored_of: dict[tuple[int, int], tuple[int, int]] = {}
        self._levels: list[_Level] = []
        self._scope: Scope | None = None

    def run(self, show: Callable[[], AbstractContextManager[Progress]]) -> VerifyReport:
        started = elapsed_seconds()
        index = self._repository.kept_index()
        # Opened before children are forked, which share it.
        index.of_client(self._snapshot.owner)
        here = os.open(b".", os.O_PATH | os.O_CLOEXEC)
        try:
            root_fd = os.open(self._options.root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            os.close(here)
            shown = printable(self._options.root)
            raise OperatingSystemError(
                f"{shown}: {reason_of(error)}; name the directory to compare with"
            ) from error
        try:
            if self._options.from_disk:
                _flush(root_fd)
            self._directories = TargetDirectories(root_fd)
            pool = self._new_pool(index, root_fd)
            try:
                with show() as progress:
                    self._progress = progress
                    self._stream(index, pool)
                    pool.close()
            except BaseException:
                pool.close(kill=True)
                raise
        finally:
            os.close(root_fd)
            os.fchdir(here)
            os.close(here)
        if not self._has_match and not self._choice.includes(self._options.subpath):
            raise NothingMatchedError(
                f"nothing in snapshot {self._snapshot.short_id} is included (and not excluded), so "
                "nothing was compared; see its names with strongroom find"
            )
        elapsed = elapsed_seconds() - started
        return VerifyReport(
            self._row_count,
            self._read_bytes,
            dict(self._differences),
            elapsed,
            not self._options.finds_extra or self._searched_extra,
        )

    def _new_pool(self, index: PlacesByClient, root_fd: int) -> _Pool:
        def work(channel: ChildChannel[CompareRows]) -> None:
            # An orderly close, so that a storage daemon does not see a broken connection.
            with closing(self._repository.reopen()) as repository:
                source = StoredContent(repository.reader_of(self._snapshot, index, _CACHE_BYTES))
                serve(channel, RowComparer(root_fd, source, self._options, self._backed_up))

        gc.freeze()  # so that children continue sharing what is loaded
        return ProcessPool(self._options.process_count(), work, decode_task, decode_reply)

    def _stream(self, index: PlacesByClient, pool: _Pool) -> None:
        def submit(entries: list[RowsEntry], _: list[int], row_count: int, size: int) -> None:
            pool.submit(
                CompareRows(entries), lambda reply: self._take_reply(reply, row_count, size)
            )

        reader = self._repository.reader_of(self._snapshot, index, _CACHE_BYTES)
        listing = Listing.of(self._snapshot, reader, _LISTING_PAGES, takes_any_xattrs=True)
        windows = Windows(submit, Marks())
        path = self._options.subpath
        if self._finds_extra:
            self._scope = Scope(
                self._snapshot,
                listing,
                self._choice,
                self._base,
                path,
                (*self._options.in_use, *program_folders(), *store_folders(self._repository.store)),
                crosses=not self._options.stays_on_mount,
            )
            # Without a record of what was left out, what is extra is not known.
            self._finds_extra = self._searched_extra = self._scope.is_known
        if not path:
            totals = self._snapshot.totals
            files = totals.files + totals.directories + totals.others
            self._progress.total(files=files, bytes=totals.data_bytes)
        self._levels = [_Level(b"", self._choice.includes(path))]
        for rows in self._rows(listing, windows):
            self._take(rows, windows)
        while self._levels:
            self._leave(self._levels.pop())
        windows.flush()
        pool.drain()

    def _rows(self, listing: Listing, windows: Windows) -> Iterable[Rows]:
        """What to compare; the row of the sub-path itself is handed out at once."""
        path = self._options.subpath
        if not path:
            return listing.rows()
        row = listing.lookup(path)
        if row is None:
            shown = printable(path)
            raise PathNotFoundError(f"the snapshot has no /{shown}; list it with strongroom ls")
        directory, name = split_path(path)
        own = slice_rows(next(iter(listing.directory_from(directory, name))), 0, 1)
        if stat.S_ISDIR(row.mode):
            is_root = path == self._base
            place, name = (b"", b"") if is_root else split_path(self._place_of(path))
            one = self._bare(msgspec.structs.replace(own, directory=place, names=name), set())
            if not (is_root and self._options.after_restore):
                windows.add(place, one, set(), 0, is_new=False)
            self._lead_to(self._place_of(path))
            # It may have no rows, but extra entries.
            self._descend(self._place_of(path))
            return listing.rows(path)
        # What is beside a file was not asked about.
        self._finds_extra = False
        if path == self._base:
            self._base = directory
            self._backed_up = BackedUp(self._snapshot.paths, directory)
        self._lead_to(self._place_of(directory))
        return [own]

    def _lead_to(self, place: bytes) -> None:
        """Levels for the directories leading to a sub-path below the base."""
        steps = place.split(b"/") if place else []
        for number in range(1, len(steps)):
            self._levels.append(_Level(b"/".join(steps[:number]), self._levels[0].is_wanted))

    def _place_of(self, path: bytes) -> bytes:
        return path[len(self._base) :].lstrip(b"/") if self._base else path

    def _take(self, rows: Rows, windows: Windows) -> None:
        names = rows.name_list()
        if not rows.directory and names[:1] == [b""]:
            if self._options.root == b"/":
                own = self._bare(slice_rows(rows, 0, 1), set())
                windows.add(b"", own, set(), 0, is_new=False)
            rows, names = slice_rows(rows, 1, rows.row_count), names[1:]
        if not names:
            return
        check_path(rows.directory)
        check_names(names, rows.names)
        level = self._descend(self._place_of(rows.directory))
        if level is None:
            return
        stats = np.frombuffer(rows.stats, "<i8").reshape(-1, COLUMN_COUNT)
        are_directories = (stats[:, MODE] & _FORMAT) == stat.S_IFDIR
        skipped = self._skipped(level, rows, names, are_directories.tolist())
        self._has_match = self._has_match or len(skipped) < len(names)
        level.below.update(
            names[n] for n in np.flatnonzero(are_directories).tolist() if n not in skipped
        )
        self._find_extra(level, names)
        rows = self._bare(rows, skipped)
        if len(skipped) < len(names):
            size_bytes = int(data_sizes(rows).sum())
            windows.add(level.place, rows, skipped, size_bytes, is_new=False)

    def _bare(self, rows: Rows, skipped: set[int]) -> Rows:
        """The rows as a restore makes them; skips what it leaves out."""
        if self._options.keeps_privileges:
            return rows
        bare = without_privileges(rows)
        skipped.update(bare.devices)
        return bare.rows

    def _descend(self, place: bytes) -> _Level | None:
        """The level of `place`; None when it is left out or missing."""
        while self._levels[-1].place != place:
            top = self._levels[-1]
            parent, name = split_path(place) if place else (b"", b"")
            if top.place == parent:
                top.below.discard(name)
                if name in top.lost:
                    return None
                return self._enter(top, place, name)
            if not top.place or place.startswith(top.place + b"/"):
                return None
            self._leave(self._levels.pop())
        level = self._levels[-1]
        if level.present is None:
            self._read(level)
        return level

    def _enter(self, above: _Level, place: bytes, name: bytes) -> _Level | None:
        level = _Level(place, name not in above.passed)
        if not self._read(level):
            above.lost.add(name)
            return None
        self._levels.append(level)
        return level

    def _read(self, level: _Level) -> bool:
        """Whether the level's directory exists; reads its names if extra ones are searched for."""
        level.present = []
        try:
            os.fchdir(self._directories.descriptor(level.place))
            if self._finds_extra and self._backed_up(level.place):
                level.present = sorted(os.listdir(b"."))
        except OSError as error:
            if error.errno not in _MISSING:
                self._tell(LiveDifference("unreadable", level.place, reason_of(error)))
            return False
        return True

    def _skipped(
        self, level: _Level, rows: Rows, names: list[bytes], are_directories: list[bool]
    ) -> set[int]:
        """Rows that are not wanted; directories among them are remembered."""
        if self._choice.takes_all:
            return set()
        chosen = self._choice.choose(
            rows.directory, names, are_directories, is_wanted=level.is_wanted
        )
        for number, value in enumerate(chosen):
            if are_directories[number] and value != WANTED:
                (level.lost if value == LEFT_OUT else level.passed).add(names[number])
        return {number for number, value in enumerate(chosen) if value != WANTED}

    def _find_extra(self, level: _Level, names: list[bytes]) -> None:
        if not level.present:
            return
        stop = bisect_right(level.present, names[-1])
        known = set(names)
        self._tell_extra(level, [n for n in level.present[level.position : stop] if n not in known])
        level.position = stop

    def _leave(self, level: _Level) -> None:
        if level.present:
            self._tell_extra(level, level.present[level.position :])
        if level.present is None or not self._finds_extra:
            return
        for name in sorted(level.below):
            below = _Level(join_path(level.place, name), level.is_wanted)
            if self._read(below) and below.present:
                self._tell_extra(below, below.present)

    def _tell_extra(self, level: _Level, names: list[bytes]) -> None:
        if not names:
            return
        if self._scope is not None and self._scope.closed(level.place, self._directories):
            return
        os.fchdir(self._directories.descriptor(level.place))
        found = [(name, status) for name in names if (status := status_of(name)) is not None]
        spared: Collection[bytes] = ()
        if self._scope is not None:
            there = [name for name, _ in found]
            spared = self._scope.spared(level.place, there, [status for _, status in found])
        for name, status in found:
            if name in spared or stat.S_ISSOCK(status.st_mode):
                continue
            if not self._choice.takes_all:
                (chosen,) = self._choice.choose(
                    self._backed_up.source_of(level.place),
                    [name],
                    [stat.S_ISDIR(status.st_mode)],
                    is_wanted=level.is_wanted,
                )
                if chosen != WANTED:
                    continue
            if self._scope is not None and not self._holds_extra(level.place, name, status):
                continue
            reason = "the snapshot does not hold it"
            self._tell(LiveDifference("extra", join_path(level.place, name), reason))

    def _holds_extra(self, place: bytes, name: bytes, status: os.stat_result) -> bool:
        """Whether not all that is in an entry was left out by the backup."""
        assert self._scope is not None
        removal = Removal(self._directories, self._scope, lambda _path, _reason: None)
        os.fchdir(self._directories.descriptor(place))
        try:
            removal.remove(place, name, status, dry_run=True)
        except OSError:
            return True
        return removal.count > 0

    def _take_reply(self, reply: RowsCompared, row_count: int, content_bytes: int) -> None:
        self._row_count += reply.row_count
        self._read_bytes += reply.read_bytes
        for difference in reply.differences:
            self._tell(difference)
        for named in reply.inodes:
            stored, live = named.stored, named.live
            if self._live_of.setdefault(stored, live) != live:
                reason = "it was one file with another name"
                self._tell(LiveDifference("links", named.path, reason))
            elif self._stored_of.setdefault(live, stored) != stored:
                reason = "it is one file with another name now"
                self._tell(LiveDifference("links", named.path, reason))
        self._progress.add(files=row_count, bytes=content_bytes)

    def _tell(self, difference: LiveDifference) -> None:
        self._differences[difference.kind] += 1
        self._progress.add(errors=1)
        self._observer.difference(difference)


def _flush(root_fd: int) -> None:
    """Write the tree's file system to disk; what cannot be written would not be read again."""
    fd = os.open(b".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=root_fd)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(fd):
            reason = os.strerror(ctypes.get_errno() or errno.EIO)
            raise OperatingSystemError(f"the tree could not be flushed to disk: {reason}")
    finally:
        os.close(fd)
