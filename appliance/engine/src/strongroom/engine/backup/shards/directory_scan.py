"""How a shard scans one directory: list, examine, compare with the parent, read what changed.

Each method is a generator of lots of calls (see `scan_threads`): calls contain what waits for the
file system, change into the directory and work on its names; everything else is between them.
Where a file system answers immediately a lot is one call or few, which costs nothing
(`scan_folders`).
"""

from __future__ import annotations

import os
import stat
from array import array
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from errno import ENOENT
from functools import partial
from typing import Any, Final

import msgspec

from strongroom.engine.backup.options import Treatment, Tuning
from strongroom.engine.backup.own_repository import OwnRepository
from strongroom.engine.backup.scanned_rows import ROOT_NAME
from strongroom.engine.backup.shards.content_reader import ContentReader, Fetched
from strongroom.engine.backup.shards.coordinator_link import CoordinatorLink
from strongroom.engine.backup.shards.directory_work import DirectoryWork, WorkTask, problem
from strongroom.engine.backup.shards.examined import (
    FoundRows,
    directories_of,
    left_out,
    names_of_inode,
    taken,
    without,
)
from strongroom.engine.backup.shards.messages import (
    ContentIsRead,
    DirectorySlice,
    Examined,
    Lost,
    ReadContent,
    Same,
    ScanDirectory,
    Scanned,
    Sliced,
)
from strongroom.engine.backup.shards.scan_folders import Place
from strongroom.engine.backup.shards.scan_pace import ATTRIBUTES, EXAMINE, LIST, READ
from strongroom.engine.backup.shards.scan_threads import Lot, Steps
from strongroom.engine.backup.wide_directory import WIDE_DIRECTORY_ROWS, NameSlice, name_slices
from strongroom.engine.filesets.exclusions import Selection
from strongroom.engine.filesets.rules import FileSetSelection
from strongroom.engine.rows.entry_counts import count_files
from strongroom.engine.rows.left_out import OWN_REPOSITORY, UNREAD, VANISHED
from strongroom.engine.rows.rows import COLUMN_COUNT, MODE, SIZE, comparison_digest, decode_rows
from strongroom.engine.scan.attributes import read_flags_of, read_xattrs, supports_xattrs
from strongroom.engine.scan.directory import (
    UnreadableName,
    open_beneath,
    read_names,
    read_wide_names,
    stat_rows,
    without_failures,
)
from strongroom.engine.scan.unchanged import merge_unchanged
from strongroom.engine.writing.block_assembly import WHOLE_FILE_BYTES
from strongroom.sources.source import Problem

# What a shard reads itself of a directory that it scans; the rest is shared out.
SHARE_BYTES: Final = 16 << 20
_KIND: Final = 0o170000
_ROOT_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
# Files that one thread reads at a time.
_FETCH_ROWS: Final = 4
_WINDOW_BYTES: Final = 256 << 10
_LOT_BYTES: Final = 4 << 20
_LOT_WINDOWS: Final = 64


class ScanRules(msgspec.Struct, frozen=True):
    """What is left out, when a row counts as unchanged, and how rows are stored.

    devices: the file systems to enter; None: all. recent_limit_ns: a row changed at or after this
    time never counts as unchanged. treatments: the table that the selection's judgements index; ():
    there is one, the job's. tells_entries: send what becomes of each entry. allows_empty: a stream
    may have no content. unsized: see `scan.mounts.unsized_devices`. own: the repository, which
    is not backed up into itself.
    """

    selection: Selection | FileSetSelection | None
    devices: frozenset[int] | None
    recent_limit_ns: int
    treatments: tuple[Treatment, ...] = ()
    tells_entries: bool = False
    allows_empty: bool = False
    unsized: Mapping[int, bytes | None] = {}
    own: OwnRepository | None = None


class _Attributes(msgspec.Struct):
    """What some rows have besides stat columns."""

    xattrs: dict[int, bytes] = {}
    targets: dict[int, bytes] = {}
    flags: dict[int, int] = {}
    failures: list[UnreadableName] = []
    unreadable: list[UnreadableName] = []


class DirectoryScan:
    """Scans for one shard."""

    def __init__(
        self, rules: ScanRules, tuning: Tuning, reader: ContentReader, link: CoordinatorLink
    ) -> None:
        self._rules = rules
        self._tuning = tuning
        self._reader = reader
        self._link = link
        self._root_fd = os.open(b"/", _ROOT_FLAGS)
        self._xattrs_of_device: dict[int, bool] = {}

    def scan(
        self,
        wanted: ScanDirectory,
        place: Place,
    ) -> Steps:
        """Do the task. Raises StoreError."""
        task, path = wanted.task, wanted.path
        try:
            (fd,) = yield Lot([partial(open_beneath, self._root_fd, path)], 0, LIST)
        except OSError as error:
            self._link.tell(Lost(task, problem(path, b"", error)))
            return
        try:
            names = yield from self._names(wanted, fd)
            if names is not None:
                problems: list[Problem] = []
                found = yield from self._examined(wanted, fd, names, problems, place)
                yield from self._compared(wanted, fd, found, problems, place)
        finally:
            os.close(fd)

    def read_content(
        self,
        wanted: ReadContent,
        place: Place,
    ) -> Steps:
        """Do the task. Raises StoreError."""
        task, path = wanted.task, wanted.path
        names = wanted.names.split(b"\0")
        flat = array("q", wanted.stats)
        new_work = partial(self._work, wanted, names, wanted.names, flat, [])
        try:
            (fd,) = yield Lot([partial(open_beneath, self._root_fd, path)])
        except OSError as error:
            work = new_work(None)
            for row in range(len(names)):
                work.unreadable(row, error)
        else:
            try:
                selection = self._rules.selection
                treatments = None
                if self._rules.treatments and selection is not None:
                    (judged,) = yield Lot([partial(_at, fd, selection.judge, path, names, flat)])
                    treatments = judged.treatments
                work = new_work(treatments)
                yield from self._read(fd, work, None, wanted.byte_range, place)
            finally:
                os.close(fd)
        self._link.tell(ContentIsRead(task))
        work.seal()

    def _work(
        self,
        wanted: ScanDirectory | ReadContent,
        names: list[bytes],
        joined: bytes,
        flat: array[int],
        problems: list[Problem],
        treatments: bytes | None,
    ) -> DirectoryWork:
        signature = self._tuning.signature
        task = WorkTask(wanted.task, wanted.path, signature, wanted.offers, treatments)
        return DirectoryWork(task, names, joined, flat, problems, self._link)

    def _names(
        self, wanted: ScanDirectory, fd: int
    ) -> Generator[Lot, list[Any], list[bytes] | None]:
        """The names to examine; None when another message was sent to the coordinator instead."""
        if wanted.names is not None:
            return wanted.names.split(b"\0")
        if wanted.part is not None:
            return wanted.part.joined().split(b"\0")
        task, path = wanted.task, wanted.path
        try:
            (names,) = yield Lot([partial(read_names, fd, WIDE_DIRECTORY_ROWS)], 0, LIST)
            if names is None:
                os.fchdir(fd)
                self._cut_wide(task, path)
        except OSError as error:
            self._link.tell(Lost(task, problem(path, b"", error)))
            return None
        return names if path or names is None else [ROOT_NAME, *names]

    def _cut_wide(self, task: int, path: bytes) -> None:
        """Split a wide directory, the working directory, into slices to be scanned later."""
        first: list[bytes] = [] if path else [ROOT_NAME]
        for number, joined in enumerate(name_slices(read_wide_names(), first), 1):
            self._link.tell(DirectorySlice(task, number, NameSlice.of(joined)))
        self._link.tell(Sliced(task))

    def _examined(
        self,
        wanted: ScanDirectory,
        fd: int,
        names: list[bytes],
        problems: list[Problem],
        place: Place,
    ) -> Generator[Lot, list[Any], FoundRows]:
        """The rows that are kept; names that could not be examined become problems."""
        path = wanted.path
        own = self._rules.own
        if own is not None and own.place is None and wanted.selects and path:
            (is_own,) = yield Lot([partial(own.is_at, fd, names)])
            if is_own:
                return FoundRows([], array("q"), [], noted={b"": OWN_REPOSITORY})
        windows = place.windows(names)
        calls = [partial(_at, fd, stat_rows, window) for window in windows]
        results = yield Lot(calls, 0, EXAMINE, len(names))
        flat = array("q")
        kept: list[bytes] = []
        unseen: dict[bytes, int] = {}
        for window, (columns, failures) in zip(windows, results, strict=True):
            flat.extend(columns)
            kept += without_failures(window, failures)
            problems += [problem(path, failure.name, failure.error) for failure in failures]
            unseen.update(dict.fromkeys((failure.name for failure in failures), VANISHED))
            if wanted.selects and any(one.error.errno != ENOENT for one in failures):
                # No one can tell what it holds, as of one that cannot be listed.
                unseen[b""] = UNREAD
        found = FoundRows(kept, flat, flat[MODE::COLUMN_COUNT].tolist(), noted=unseen)
        if own is not None and own.place is not None and wanted.selects:
            found = found._replace(left=names_of_inode(found, *own.place))
        selection = self._rules.selection
        if selection is None or not (wanted.selects or self._rules.treatments):
            if self._rules.tells_entries:
                self._link.tell(Examined(left_out(None, path, found, None)))
            return without(found, None)
        (judged,) = yield Lot([partial(_at, fd, selection.judge, path, kept, flat)])
        kept_rows, left, treatments, noted = judged
        if not wanted.selects:
            # Directories leading to the given paths are always kept.
            kept_rows, left, noted = None, frozenset(), {}
        if kept_rows is not None and kept and kept[0] == ROOT_NAME:
            kept_rows[0] = True
        if self._rules.tells_entries:
            (entries,) = yield Lot([partial(_at, fd, left_out, selection, path, found, kept_rows)])
            self._link.tell(Examined(entries))
        left |= found.left
        found = found._replace(left=left, treatments=treatments, noted={**unseen, **noted})
        return without(found, kept_rows)

    def _compared(
        self,
        wanted: ScanDirectory,
        fd: int,
        found: FoundRows,
        problems: list[Problem],
        place: Place,
    ) -> Steps:
        """Report the directory as equal to the parent's, or read what changed."""
        task, path = wanted.task, wanted.path
        names, flat, modes, _, treatments, _ = found
        joined = b"\0".join(names)
        if names and names[0] == ROOT_NAME:
            joined = joined[len(ROOT_NAME) :]  # the root's own row is named b""
        # Directories leading to the given paths may be on any file system.
        devices = self._rules.devices if wanted.selects else None
        children = directories_of(found, devices)
        digest = None if problems else wanted.parent_digest  # problems are reported by every backup
        if digest is not None and comparison_digest(joined, flat) == digest:
            if self._rules.tells_entries:
                self._link.tell(Examined(taken(path, found, (), (), devices)))
            names, closed, left = children
            self._link.tell(Same(task, *count_files(flat), names, closed, left))
            return
        self._link.tell(Scanned(task, *children))
        work = self._work(wanted, names, joined, flat, problems, treatments)
        known: frozenset[bytes] = frozenset()
        if wanted.has_parent:
            parent = decode_rows(self._link.parent_rows(task))
            limit_ns = self._rules.recent_limit_ns
            work.match(parent, merge_unchanged(joined, flat, parent, limit_ns))
            if self._rules.tells_entries:
                known = frozenset(parent.name_list())
        if self._rules.tells_entries:
            changed = frozenset(work.changed_rows)
            self._link.tell(Examined(taken(path, found, changed, known, devices)))
        if work.changed_rows:
            yield from self._add_attributes(fd, work, modes, place)
            yield from self._read(fd, work, SHARE_BYTES, None, place)
        work.seal()

    def _add_attributes(
        self, fd: int, work: DirectoryWork, modes: list[int], place: Place
    ) -> Steps:
        """Link targets, extended attributes and flags of the rows that changed."""
        (has_xattrs,) = yield Lot([partial(self._has_xattrs, fd)])
        windows = place.windows(work.changed_rows)
        calls = [
            partial(_at, fd, self._attributes, work, modes, rows, has_xattrs) for rows in windows
        ]
        results: list[_Attributes] = yield Lot(calls, 0, ATTRIBUTES, len(work.changed_rows))
        for found in results:
            work.attributes.xattrs.update(found.xattrs)
            work.attributes.targets.update(found.targets)
            work.attributes.flags.update(found.flags)
            for failure in found.failures:
                work.incomplete(failure.row, failure.error)
            for failure in found.unreadable:
                work.unreadable(failure.row, failure.error)

    def _attributes(
        self, work: DirectoryWork, modes: list[int], rows: Sequence[int], has_xattrs: bool
    ) -> _Attributes:
        tuning = self._tuning
        names = work.names
        found = _Attributes()
        if has_xattrs:
            for acls, others, some in self._by_attributes(work, rows):
                xattrs, failures = read_xattrs(names, some, acls=acls, others=others)
                found.xattrs.update(xattrs)
                found.failures += failures
        for row in rows:
            mode = modes[row]
            if mode & _KIND == stat.S_IFREG and work.flat[row * COLUMN_COUNT + SIZE]:
                continue  # its flags are read when it is opened for reading anyway
            if stat.S_ISLNK(mode):
                try:
                    found.targets[row] = os.readlink(names[row])
                except OSError as error:
                    found.unreadable.append(UnreadableName(row, names[row], error))
            elif tuning.flags and (stat.S_ISDIR(mode) or not work.column(row, SIZE)):
                try:
                    flags = read_flags_of(names[row], mode)
                except OSError:
                    # Flags of an empty file or a directory that may not be opened are unknown;
                    # a directory that cannot be listed is reported when it is scanned.
                    continue
                if flags:
                    found.flags[row] = flags
        return found

    def _by_attributes(
        self, work: DirectoryWork, rows: Sequence[int]
    ) -> Iterable[tuple[bool, bool, Sequence[int]]]:
        """Rows by whether ACLs and other attributes are wanted; not those with neither."""
        chosen = work.task.treatments
        if chosen is None:
            return [(self._tuning.acls, self._tuning.xattrs, rows)]
        groups: dict[tuple[bool, bool], list[int]] = {}
        for row in rows:
            treatment = self._rules.treatments[chosen[row]]
            if treatment.acls or treatment.xattrs:
                groups.setdefault((treatment.acls, treatment.xattrs), []).append(row)
        return [(*wanted, some) for wanted, some in groups.items()]

    def _has_xattrs(self, fd: int) -> bool:
        wanted = self._rules.treatments or (self._tuning,)
        if not any(one.acls or one.xattrs for one in wanted):
            return False
        device = os.fstat(fd).st_dev
        known = self._xattrs_of_device.get(device)
        if known is None:
            known = self._xattrs_of_device[device] = supports_xattrs(fd)
        return known

    def _read(
        self,
        fd: int,
        work: DirectoryWork,
        share_bytes: int | None,
        byte_range: tuple[int, int] | None,
        place: Place,
    ) -> Steps:
        """Read the content of changed files; small ones by several threads if available."""
        rows = self._reader.rows_to_read(work, share_bytes, byte_range)
        if place.is_slow and byte_range is None:
            rows = yield from self._fetch(fd, work, rows)
        if rows:
            os.fchdir(fd)
            self._reader.read_rows(work, rows, byte_range)

    def _fetch(
        self, fd: int, work: DirectoryWork, rows: list[int]
    ) -> Generator[Lot, list[Any], list[int]]:
        """Read small files unchanged since they were listed; returns the rows that are left."""
        left: list[int] = []
        windows: list[list[int]] = []
        window: list[int] = []
        window_bytes = lot_bytes = 0
        small: list[int] = []
        for row in rows:
            (small if work.column(row, SIZE) <= WHOLE_FILE_BYTES else left).append(row)
        for place, row in enumerate(small, 1):
            size = work.column(row, SIZE)
            window.append(row)
            window_bytes += size
            lot_bytes += size
            is_last = place == len(small)
            if is_last or len(window) >= _FETCH_ROWS or window_bytes >= _WINDOW_BYTES:
                windows.append(window)
                window, window_bytes = [], 0
            if is_last or lot_bytes >= _LOT_BYTES or len(windows) >= _LOT_WINDOWS:
                if window:
                    windows.append(window)
                    window, window_bytes = [], 0
                calls = [partial(_at, fd, self._reader.fetch, work, each) for each in windows]
                results: list[list[tuple[int, Fetched | None]]] = yield Lot(
                    calls, lot_bytes, READ, sum(map(len, windows))
                )
                windows, lot_bytes = [], 0
                for row_found, fetched in (item for result in results for item in result):
                    if fetched is None:
                        left.append(row_found)
                    else:
                        self._reader.take(work, row_found, fetched)
        return left


def _at(fd: int, call: Callable[..., Any], *arguments: Any) -> Any:
    """Make a call in a directory."""
    os.fchdir(fd)
    return call(*arguments)
