"""Which pages of a listing hold a path, and random access to single rows for a mounted snapshot.

Besides a row this gives its *ordinal*, its place in the snapshot, which never changes; and it
lists a directory from any name on. The most recently used slices of directories are cached, at
most `KEPT_ROWS` rows of them. One lock guards that cache; threads may share a RowLookup.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from threading import Lock
from typing import Final, NamedTuple

from strongroom.engine.repository.listing.page import page_key
from strongroom.engine.repository.listing.reader import ChunkReader, Listing
from strongroom.engine.repository.snapshots import PageReference
from strongroom.engine.rows.rows import ROW_BYTES, Rows
from strongroom.engine.rows.views import RowReader, RowView, path_key, split_path

_LRU_SIZE_PAGES: Final = 4


def page_range(pages: Sequence[PageReference], path: bytes) -> range:
    """Numbers of the pages with rows below the directory `path`, and at most two beside them.

    b"" is the root: every page.
    """
    if not path:
        return range(len(pages))
    keys = [page_key(page.first_directory, page.first_name) for page in pages]
    low = path_key(path)
    # The sub-tree's keys are `low` and `low` NUL anything, and names hold no NUL.
    first = max(0, bisect_left(keys, (low, b"")) - 1)
    return range(first, bisect_left(keys, (low + b"\1", b"")))


def is_below(directory: bytes, path: bytes) -> bool:
    """Whether rows of `directory` are below the directory `path`, b"" being the root."""
    return not path or directory == path or directory.startswith(path + b"/")


KEPT_ROWS: Final = 40_000
_MODE: Final = struct.Struct("<q")


class Slice(NamedTuple):
    """Rows of one directory from one page, prepared for access to single rows."""

    rows: Rows
    reader: RowReader
    first_ordinal: int

    @property
    def names(self) -> list[bytes]:
        """The names, in order."""
        return self.reader.names

    def mode(self, row: int) -> int:
        """The st_mode of a row."""
        (mode,) = _MODE.unpack_from(self.rows.stats, row * ROW_BYTES)
        return int(mode)


class RowLookup:
    """Rows of one snapshot by path, and directories from any name on."""

    def __init__(
        self,
        pages: Sequence[PageReference],
        chunks: ChunkReader,
        unread: Iterable[bytes] = (),
    ) -> None:
        """unread: as of Listing."""
        self._pages = pages
        self._listing = Listing(pages, chunks, _LRU_SIZE_PAGES, unread=unread)
        self._keys = [page_key(page.first_directory, page.first_name) for page in pages]
        self._ordinals = [0]
        for page in pages:
            self._ordinals.append(self._ordinals[-1] + page.row_count)
        self._kept: OrderedDict[tuple[int, int], Slice] = OrderedDict()
        self._kept_rows = 0
        self._lock = Lock()

    def find(self, path: bytes) -> tuple[RowView, int] | None:
        """The row of `path` and its ordinal; None if the snapshot has no such row."""
        directory, name = split_path(path)
        for piece in self.directory_from(directory, name):
            row = bisect_left(piece.names, name)
            if row < len(piece.names) and piece.names[row] == name:
                return piece.reader.view(row), piece.first_ordinal + row
            if row < len(piece.names):
                return None
        return None

    def directory_from(self, path: bytes, name: bytes) -> Iterator[Slice]:
        """The slices of the directory `path`, from the first that may hold `name` on."""
        wanted = path_key(path)
        number = max(0, bisect_right(self._keys, (wanted, name)) - 1)
        while number < len(self._pages) and self._keys[number][0] <= wanted:
            groups = self._listing.page(number)
            place = bisect_left(groups, wanted, key=lambda rows: path_key(rows.directory))
            if place < len(groups) and groups[place].directory == path:
                yield self._slice(number, place, groups)
            elif place < len(groups):
                return
            number += 1

    def _slice(self, page: int, place: int, groups: list[Rows]) -> Slice:
        with self._lock:
            kept = self._kept.get((page, place))
            if kept is not None:
                self._kept.move_to_end((page, place))
                return kept
        rows = groups[place]
        before = sum(group.row_count for group in groups[:place])
        piece = Slice(rows, RowReader(rows), self._ordinals[page] + before)
        with self._lock:
            if (page, place) not in self._kept:
                self._kept[page, place] = piece
                self._kept_rows += rows.row_count
            while self._kept_rows > KEPT_ROWS and len(self._kept) > 1:
                _, oldest = self._kept.popitem(last=False)
                self._kept_rows -= oldest.rows.row_count
        return piece
