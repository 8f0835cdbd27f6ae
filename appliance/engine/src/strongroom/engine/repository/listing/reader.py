"""Find and stream rows of a snapshot from its listing pages.

Pages are in listing order and each names its first row, so a directory, a sub-tree or one path
is found by binary search and only its pages are read. Decoded pages are kept in an LRU cache; a
lock guards them, and threads may share a Listing.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from operator import is_
from threading import Lock
from typing import Protocol, Self

from strongroom.base.errors import DamageError
from strongroom.engine.repository.listing.page import decode_page, page_key
from strongroom.engine.repository.snapshots import PageReference, Snapshot
from strongroom.engine.rows.rows import UNREADABLE, Buffer, Rows, slice_rows
from strongroom.engine.rows.views import RowReader, RowView, path_key, split_path


class ChunkReader(Protocol):
    """Reads verified chunks."""

    def chunk(self, block_id: bytes, slot: int) -> Buffer:
        """Raw bytes of a chunk. Raises DamageError."""


class _Page:
    """A decoded page; tables for lookups are built once and cached with it."""

    __slots__ = ("_readers", "directory_keys", "groups")

    def __init__(self, groups: list[Rows]) -> None:
        self.groups = groups
        self.directory_keys = [path_key(rows.directory) for rows in groups]
        self._readers: dict[int, RowReader] = {}

    def reader(self, group: int) -> RowReader:
        # Two threads may build the same one; either is right.
        reader = self._readers.get(group)
        if reader is None:
            reader = self._readers[group] = RowReader(self.groups[group])
        return reader


def require_order(pages: Sequence[PageReference]) -> list[tuple[bytes, bytes]]:
    """The keys of a snapshot's pages, which ascend; DamageError where they do not."""
    keys = [page_key(page.first_directory, page.first_name) for page in pages]
    if any(key >= after for key, after in pairwise(keys)):
        raise DamageError("pages of a snapshot are out of order")
    return keys


class Listing:
    """The rows of one snapshot, read page by page. Every method may raise DamageError."""

    def __init__(
        self,
        pages: Sequence[PageReference],
        chunks: ChunkReader,
        lru_size_pages: int = 16,
        *,
        takes_any_xattrs: bool = False,
        unread: Iterable[bytes] = (),
    ) -> None:
        """takes_any_xattrs: see `decode_page`. unread: folders whose rows are marked so.

        A folder that cannot be listed is found after its row was written.
        """
        self._pages = pages
        self._chunks = chunks
        self._takes_any_xattrs = takes_any_xattrs
        self._lru_size_pages = max(1, lru_size_pages)
        self._keys = require_order(pages)
        self._unread: dict[int, list[bytes]] = {}
        for path in unread:
            number = self.page_number_of(path)
            if number is not None:
                self._unread.setdefault(number, []).append(path)
        self._decoded: OrderedDict[int, _Page] = OrderedDict()
        self._lock = Lock()

    @classmethod
    def of(
        cls,
        snapshot: Snapshot,
        chunks: ChunkReader,
        lru_size_pages: int = 16,
        *,
        takes_any_xattrs: bool = False,
    ) -> Self:
        """The rows of a snapshot read with its pages; folders that were not listed are marked."""
        return cls(
            snapshot.pages,
            chunks,
            lru_size_pages,
            takes_any_xattrs=takes_any_xattrs,
            unread=snapshot.unread,
        )

    @property
    def row_count(self) -> int:
        """Rows of the snapshot."""
        return sum(page.row_count for page in self._pages)

    def page(self, number: int) -> list[Rows]:
        """The rows of page `number` (from 0), one Rows a directory; not to be changed."""
        return self._page(number).groups

    @property
    def page_blocks(self) -> list[bytes]:
        """The ids of the blocks that hold the pages, in order."""
        return [page.block_id for page in self._pages]

    def pages(self) -> Iterator[list[Rows]]:
        """All pages, in order."""
        return map(self.page, range(len(self._pages)))

    def reference_of(self, groups: Sequence[Rows]) -> PageReference | None:
        """The page that has just these rows, if it is in the cache: the same objects, all of them.

        None says nothing: equal rows may well be on a page.
        """
        number = bisect_left(self._keys, _first_key(groups[0]))
        with self._lock:
            page = self._decoded.get(number)
        if page is None or len(page.groups) != len(groups):
            return None
        return self._pages[number] if all(map(is_, page.groups, groups)) else None

    def unread_on(self, number: int) -> tuple[bytes, ...]:
        """Paths of the folders with a row on page `number` that could not be listed."""
        return tuple(self._unread.get(number, ()))

    def number_of(self, rows: Rows) -> int:
        """The page that `rows`, which are of this listing, are on."""
        return bisect_right(self._keys, _first_key(rows)) - 1

    def beside(self, rows: Rows) -> list[Rows]:
        """Rows of the page that `rows` are of, if it is in the cache."""
        with self._lock:
            page = self._decoded.get(self.number_of(rows))
        return [] if page is None else page.groups

    def rows(self, path: bytes = b"") -> Iterator[Rows]:
        """All rows below the directory `path`, in order; a directory may come in several Rows.

        The row of `path` itself is not among them; `lookup` gives it.
        """
        low = path_key(path)
        # The sub-tree's keys are `low` and `low` NUL anything, and names hold no NUL.
        return self._between(low, low + b"\1" if path else None)

    def directory(self, path: bytes) -> Iterator[Rows]:
        """The rows directly in the directory `path`, in order, in one or several Rows."""
        low = path_key(path)
        return self._between(low, low + b"\0")

    def directory_from(self, path: bytes, name: bytes) -> Iterator[Rows]:
        """Like `directory`, from the first name that is not less than `name`."""
        low = path_key(path)
        number = max(0, bisect_right(self._keys, (low, name)) - 1)
        for rows in self._between(low, low + b"\0", number):
            start = bisect_left(rows.name_list(), name)
            if start < rows.row_count:
                yield slice_rows(rows, start, rows.row_count)

    def lookup(self, path: bytes) -> RowView | None:
        """The row of `path`, if the snapshot has one; b"" is the root's own row."""
        directory, name = split_path(path)
        key = path_key(directory)
        number = bisect_right(self._keys, (key, name)) - 1
        if number < 0:
            return None
        page = self._page(number)
        group = bisect_left(page.directory_keys, key)
        if group == len(page.groups) or page.directory_keys[group] != key:
            return None
        return page.reader(group).find(name)

    def page_number_of(self, path: bytes) -> int | None:
        """The page that has the row of `path`, if any does; no page is read."""
        directory, name = split_path(path)
        number = bisect_right(self._keys, (path_key(directory), name)) - 1
        return None if number < 0 else number

    def page_numbers_below(self, path: bytes) -> range:
        """The pages on which `rows(path)` finds its rows; none is read."""
        low = path_key(path)
        return self._numbers_between(low, low + b"\1" if path else None)

    def totals_below(self, path: bytes) -> tuple[int, int]:
        """How many rows are below `path`, and the bytes of their files; reads two pages at most."""
        from strongroom.engine.rows.entry_counts import count_entries

        numbers = self.page_numbers_below(path)
        whole = self._pages[numbers.start + 1 : numbers.stop - 1]
        row_count = sum(page.row_count for page in whole)
        content_bytes = sum(page.content_bytes for page in whole)
        low = path_key(path)
        for number in {numbers.start, numbers.stop - 1} if numbers else ():
            page = self._page(number)
            start = bisect_left(page.directory_keys, low)
            end = bisect_left(page.directory_keys, low + b"\1") if path else len(page.groups)
            row_count += sum(rows.row_count for rows in page.groups[start:end])
            content_bytes += count_entries(page.groups[start:end]).content_bytes
        return row_count, content_bytes

    def _numbers_between(self, low: bytes, high: bytes | None) -> range:
        first = max(0, bisect_left(self._keys, (low, b"")) - 1)
        last = len(self._pages) if high is None else bisect_left(self._keys, (high, b""))
        return range(first, last)

    def _between(self, low: bytes, high: bytes | None, number: int | None = None) -> Iterator[Rows]:
        """Rows of directories whose key is at least `low` and less than `high`."""
        numbers = self._numbers_between(low, high)
        for place in numbers if number is None else range(number, numbers.stop):
            page = self._page(place)
            start = bisect_left(page.directory_keys, low)
            end = len(page.groups)
            if high is not None:
                end = bisect_left(page.directory_keys, high)
            yield from page.groups[start:end]

    def _page(self, number: int) -> _Page:
        with self._lock:
            if number in self._decoded:
                self._decoded.move_to_end(number)
                return self._decoded[number]
        page = _Page(self._read(number))
        with self._lock:
            self._decoded[number] = page
            while len(self._decoded) > self._lru_size_pages:
                self._decoded.popitem(last=False)
        return page

    def _read(self, number: int) -> list[Rows]:
        reference = self._pages[number]
        where = f"page {number + 1} of {len(self._pages)} of a snapshot's listing"
        try:
            raw = bytes(self._chunks.chunk(reference.block_id, 0))
            groups = decode_page(raw, takes_any_xattrs=self._takes_any_xattrs)
        except DamageError as error:
            raise DamageError(f"{where}: {error}; run check") from error
        first = groups[0]
        if (
            _first_key(first) != self._keys[number]
            or sum(rows.row_count for rows in groups) != reference.row_count
        ):
            raise DamageError(f"{where} does not hold the rows it is listed with; run check")
        for path in self._unread.get(number, ()):
            _mark_unread(groups, path)
        return groups


def _mark_unread(groups: list[Rows], path: bytes) -> None:
    directory, name = split_path(path)
    for rows in groups:
        if rows.directory == directory:
            names = rows.name_list()
            row = bisect_left(names, name)
            if row < len(names) and names[row] == name:
                rows.states[row] = UNREADABLE


def _first_key(rows: Rows) -> tuple[bytes, bytes]:
    return page_key(rows.directory, rows.names.partition(b"\0")[0])
