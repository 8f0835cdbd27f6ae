"""Cut a stream of rows into listing pages at content-defined places.

A page ends, once it has MIN_PAGE_ROWS rows, before a name or a directory whose checksum matches,
and at MAX_PAGE_ROWS in any case. So an inserted or removed row changes its own page and at most
the next; how the rows were sliced before makes no difference. Rows with much data (long
attributes, deep paths, files of many chunks) end a page early, so that a page is at most about
MAX_PAGE_WEIGHT_BYTES unless a single row is more. Where the rows are those of a page cut before,
from its first row on, no name is checked: it would be cut there again.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final
from zlib import crc32

import numpy as np

from strongroom.engine.repository.listing.page import MAX_PAGE_ROWS
from strongroom.engine.rows.rows import Rows, split_rows

MIN_PAGE_ROWS: Final = 4096
MAX_PAGE_WEIGHT_BYTES: Final = 8 << 20
_NAME_MASK: Final = 4095
_DIRECTORY_MASK: Final = 63
_PART_BYTES: Final = 18
_EXTENT_BYTES: Final = 16
_HEAVY_BYTES: Final = 256
# Up to so many rows numpy takes longer than a loop does.
_FEW_ROWS: Final = 256


class PageBuilder:
    """Takes Rows in listing order, returns the rows of each page as it becomes full."""

    def __init__(self, page_of: Callable[[Rows], list[Rows]] | None = None) -> None:
        """page_of: the rows of the page cut before that these rows, the very object, are of."""
        self._page_of = page_of
        # Rows of the page cut before of which all rows so far are.
        self._followed: list[Rows] = []
        self._page: list[Rows] = []
        self._row_count = 0
        self._weight = 0
        self._directory: bytes | None = None

    def add(self, rows: Rows) -> list[list[Rows]]:
        """Append a directory or the next slice of it; the pages finished by that, maybe none."""
        if not rows.row_count:
            return []
        pages: list[list[Rows]] = []
        if rows.directory != self._directory:
            self._directory = rows.directory
            ends = self._row_count >= MIN_PAGE_ROWS and not crc32(rows.directory) & _DIRECTORY_MASK
            if ends or (self._page and self._weight + len(rows.directory) > MAX_PAGE_WEIGHT_BYTES):
                pages.append(self._taken())
            self._weight += len(rows.directory)
        heavy = _heavy_rows(rows)
        is_short = self._row_count + rows.row_count <= MIN_PAGE_ROWS
        if not heavy and (is_short or self._follows(rows)):
            self._append(rows)
            return pages
        cuts, weight = self._cuts(rows, heavy) if heavy else self._light_cuts(rows)
        *finished, last = split_rows(rows, cuts)
        for piece in finished:
            self._append(piece)
            pages.append(self._taken())
        self._append(last)
        self._weight = weight
        return pages

    def finish(self) -> list[list[Rows]]:
        """The last page, if there is one."""
        return [self._taken()] if self._page else []

    def _follows(self, rows: Rows) -> bool:
        """Whether the page, with these rows at its end, begins as a page cut before."""
        place = len(self._page)
        if not place:
            self._followed = [] if self._page_of is None else self._page_of(rows)
        return place < len(self._followed) and self._followed[place] is rows

    def _append(self, rows: Rows) -> None:
        if not rows.row_count:
            return
        if not self._follows(rows):
            self._followed = []
        self._page.append(rows)
        self._row_count += rows.row_count

    def _taken(self) -> list[Rows]:
        page, self._page = self._page, []
        self._row_count = self._weight = 0
        return page

    def _cuts(self, rows: Rows, heavy: Mapping[int, int]) -> tuple[list[int], int]:
        """Row numbers before which a page ends, and the weight of the page after the last.

        A 0 among them ends the pending page before all of these rows.
        """
        cuts: list[int] = []
        weight = self._weight
        count = self._row_count
        by_name = frozenset(_ends_of(rows))
        for row in range(rows.row_count):
            mine = heavy.get(row, 0)
            if (
                (count >= MIN_PAGE_ROWS and row in by_name)
                or count >= MAX_PAGE_ROWS
                or (mine and count and weight + mine > MAX_PAGE_WEIGHT_BYTES)
            ):
                cuts.append(row)
                count, weight = 0, len(rows.directory)
            count += 1
            weight += mine
        return cuts, weight

    def _light_cuts(self, rows: Rows) -> tuple[list[int], int]:
        """`_cuts` where no row is heavy: its number and its name decide."""
        page_begin = -self._row_count
        by_name = _ends_of(rows)
        cuts: list[int] = []
        while True:
            place = bisect_left(by_name, page_begin + MIN_PAGE_ROWS)
            cut = min([page_begin + MAX_PAGE_ROWS, *by_name[place : place + 1]])
            if cut >= rows.row_count:
                return cuts, len(rows.directory) if cuts else self._weight
            cuts.append(cut)
            page_begin = cut


def page_ends(names: Iterable[bytes]) -> list[int]:
    """Numbers of the rows, from 0, before whose `names` a page may end."""
    return [row for row, checksum in enumerate(map(crc32, names)) if not checksum & _NAME_MASK]


def _ends_of(rows: Rows) -> Sequence[int]:
    return page_ends(rows.name_list()) if rows.page_ends is None else rows.page_ends


def _heavy_rows(rows: Rows) -> dict[int, int]:
    """Bytes of the heavy rows; judged row by row, so that slicing makes no difference."""
    weights: dict[int, int] = {}
    if _most_parts(rows) * _PART_BYTES >= _HEAVY_BYTES:
        for row, count in enumerate(rows.part_counts):
            weights[row] = count * _PART_BYTES
    for texts in (rows.targets, rows.xattrs):
        for row, text in texts.items():
            weights[row] = weights.get(row, 0) + len(text)
    for row, extents in rows.extents.items():
        weights[row] = weights.get(row, 0) + len(extents) * _EXTENT_BYTES
    return {row: weight for row, weight in weights.items() if weight >= _HEAVY_BYTES}


def _most_parts(rows: Rows) -> int:
    if rows.row_count <= _FEW_ROWS:
        return max(rows.part_counts)
    return int(np.frombuffer(rows.part_counts, np.uint32).max())
