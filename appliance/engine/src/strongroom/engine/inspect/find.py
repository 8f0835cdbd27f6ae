"""Find rows by name, type, size and time in many snapshots, and the newest that has a path.

Snapshots share most of their pages, and a page has the same rows in each. So each page is decoded
and searched once, and its matches are kept for the following snapshots, up to `KEPT_ROWS` rows.
"""

from __future__ import annotations

import re
import stat
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from itertools import compress
from typing import Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from strongroom.base.errors import DamageError, ObjectMissingError, UsageError
from strongroom.base.printable import printable
from strongroom.engine.inspect.row_lookup import is_below, page_range
from strongroom.engine.repository.client_readers import ClientReaders
from strongroom.engine.repository.listing.reader import Listing
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.snapshots import Snapshot
from strongroom.engine.rows.left_out import is_in_folders
from strongroom.engine.rows.rows import COLUMN_COUNT, MODE, MTIME_NS, SIZE, UNREADABLE, Rows
from strongroom.engine.rows.views import RowReader, RowView
from strongroom.engine.scan.patterns import Patterns

KEPT_ROWS: Final = 100_000


class Criteria(msgspec.Struct, frozen=True):
    """What a row must be; every criterion that is set must hold.

    globs, globs_ignoring_case: patterns as for --exclude, of which one must match. regexes: one
    must be found somewhere in the absolute path. formats: values of stat.S_IFMT. Sizes in bytes
    and times (mtime, ns) are inclusive; sizes are of regular files only. below: the directory to
    search in, b"" for everything.
    """

    globs: tuple[bytes, ...] = ()
    globs_ignoring_case: tuple[bytes, ...] = ()
    regexes: tuple[bytes, ...] = ()
    formats: frozenset[int] = frozenset()
    smallest_bytes: int | None = None
    largest_bytes: int | None = None
    earliest_ns: int | None = None
    latest_ns: int | None = None
    below: bytes = b""


class Match(NamedTuple):
    """A matching row, and the snapshot it is in."""

    snapshot: Snapshot
    row: RowView


# Client and block of a page, and what is marked on it.
_PageKey = tuple[bytes, bytes, tuple[bytes, ...]]


class Finder:
    """Searches snapshots one after the other."""

    def __init__(self, criteria: Criteria, readers: ClientReaders) -> None:
        """Raises UsageError for a pattern that is not well formed."""
        self._criteria = criteria
        self._readers = readers
        self._patterns = _patterns(criteria)
        self._regexes = [_compiled(regex) for regex in criteria.regexes]
        self._kept: OrderedDict[_PageKey, list[RowView]] = OrderedDict()
        self._kept_rows = 0

    def search(self, snapshot: Snapshot) -> Iterator[Match]:
        """Matching rows of a snapshot read with its pages, in order. Raises DamageError."""
        listing = Listing.of(snapshot, self._readers.of(snapshot.owner), 1)
        for number in page_range(snapshot.pages, self._criteria.below):
            # A page of another client with the same id does not count.
            block_id = snapshot.pages[number].block_id
            page = (snapshot.owner, block_id, listing.unread_on(number))
            for row in self._page(listing, number, page):
                yield Match(snapshot, row)

    def _page(self, listing: Listing, number: int, page: _PageKey) -> list[RowView]:
        kept = self._kept.get(page)
        if kept is not None:
            self._kept.move_to_end(page)
            return kept
        found = [row for rows in listing.page(number) for row in self._fitting(rows)]
        self._kept[page] = found
        self._kept_rows += len(found)
        while self._kept_rows > KEPT_ROWS and len(self._kept) > 1:
            _, oldest = self._kept.popitem(last=False)
            self._kept_rows -= len(oldest)
        return found

    def _fitting(self, rows: Rows) -> Iterator[RowView]:
        if not is_below(rows.directory, self._criteria.below):
            return
        fits = self._fitting_columns(rows)
        candidates = np.flatnonzero(fits).tolist()
        if not candidates:
            return
        if self._patterns is None and not self._regexes:
            yield from map(RowReader(rows).view, candidates)
            return
        names = rows.name_list()
        candidates = [row for row in candidates if names[row]]
        matched = set(self._matched_by_regex(rows.directory, names, candidates))
        matched.update(self._matched_by_pattern(rows, names, candidates))
        if matched:
            yield from map(RowReader(rows).view, sorted(matched))

    def _fitting_columns(self, rows: Rows) -> NDArray[np.bool_]:
        """Which rows match by their stat columns."""
        criteria = self._criteria
        stats = np.frombuffer(rows.stats, "<i8").reshape(-1, COLUMN_COUNT)
        fits = np.ones(rows.row_count, np.bool_)
        formats = stats[:, MODE] & 0o170000
        if criteria.formats:
            fits &= np.isin(formats, list(criteria.formats))
        if criteria.smallest_bytes is not None:
            fits &= (formats == stat.S_IFREG) & (stats[:, SIZE] >= criteria.smallest_bytes)
        if criteria.largest_bytes is not None:
            fits &= (formats == stat.S_IFREG) & (stats[:, SIZE] <= criteria.largest_bytes)
        if criteria.earliest_ns is not None:
            fits &= stats[:, MTIME_NS] >= criteria.earliest_ns
        if criteria.latest_ns is not None:
            fits &= stats[:, MTIME_NS] <= criteria.latest_ns
        return fits

    def _matched_by_pattern(
        self, rows: Rows, names: Sequence[bytes], candidates: list[int]
    ) -> Iterator[int]:
        patterns = None if self._patterns is None else self._patterns.for_directory(rows.directory)
        if patterns is None:
            return iter(())
        wanted = [names[row] for row in candidates]
        are_directories: list[bool] = []
        if patterns.wants_directories:
            modes = np.frombuffer(rows.stats, "<i8")[MODE::COLUMN_COUNT]
            are_directories = [stat.S_ISDIR(int(modes[row])) for row in candidates]
        return compress(candidates, patterns.match(wanted, are_directories))

    def _matched_by_regex(
        self, directory: bytes, names: Sequence[bytes], candidates: list[int]
    ) -> Iterator[int]:
        prefix = b"/" + directory + b"/" if directory else b"/"
        for regex in self._regexes:
            search = regex.search
            for row in candidates:
                if search(prefix + names[row]):
                    yield row


def _patterns(criteria: Criteria) -> Patterns | None:
    globs = [(glob, False) for glob in criteria.globs]
    globs += [(glob, True) for glob in criteria.globs_ignoring_case]
    return Patterns(globs) if globs else None


def _compiled(regex: bytes) -> re.Pattern[bytes]:
    try:
        return re.compile(regex)
    except re.error as error:
        shown = printable(regex)
        raise UsageError(f"{shown!r} is not a regular expression: {error}") from error


MOST_PATHS: Final = 20
_MOST_SNAPSHOTS: Final = 200


def newest_with(
    repository: Repository, snapshots: Iterable[Snapshot], lacking: Snapshot, paths: Sequence[bytes]
) -> dict[bytes, Snapshot]:
    """For each path (MOST_PATHS at most) the newest snapshot of the client that has it, if any.

    lacking: the snapshot that does not. Snapshots that cannot be read are passed over. Raises
    KeyRightError, StoreError.
    """
    wanted = list(dict.fromkeys(paths))[:MOST_PATHS]
    found: dict[bytes, Snapshot] = {}
    others = [one for one in snapshots if one.owner == lacking.owner and one.id != lacking.id]
    others.sort(key=lambda one: (one.start_ns, one.id), reverse=True)
    index = repository.kept_index() if wanted and others else None
    for one in others[:_MOST_SNAPSHOTS]:
        if len(found) == len(wanted) or index is None:
            break
        try:
            snapshot = repository.snapshot(one.id)
            listing = Listing.of(snapshot, repository.reader_of(snapshot, index), 2)
            for path in wanted:
                if path not in found and has_path(snapshot, listing, path):
                    found[path] = snapshot
        except (DamageError, ObjectMissingError):
            continue
    return found


def has_path(snapshot: Snapshot, listing: Listing, path: bytes) -> bool:
    """Whether a snapshot has a path, and its backup could read it."""
    if is_in_folders(path, snapshot.unread):
        return False
    row = listing.lookup(path)
    return row is not None and row.state != UNREADABLE
