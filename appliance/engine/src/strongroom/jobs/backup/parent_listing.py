"""Looks up directories in the parent snapshot, for the coordinator.

Rows are offered only when everything they refer to is still in the repository; otherwise the
directory counts as new and is read again. A digest is offered only when equal digests prove that
nothing changed: no row may have changed within a clock tick of the parent's start, and none may
have been unreadable or changed while it was read. A damaged page only causes its directories to
be read again.

A file whose content was offered to share and is not to be any more, or the other way round, counts
as changed, whatever the reason: references under the common keys are only to what is offered now.
"""

from __future__ import annotations

import stat
from bisect import bisect_right
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from strongroom.errors import DamageError
from strongroom.jobs.backup.parent_blocks import ParentBlocks
from strongroom.rows.rows import (
    CHANGED,
    COLUMN_COUNT,
    MODE,
    Rows,
    comparison_digest,
    join_rows,
    slice_rows,
)
from strongroom.scan.unchanged import newest_ctime_ns

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from strongroom.jobs.backup.parent_cache import CachedListing, ListingKeeper
    from strongroom.repo.index.client_blocks import ClientBlocks
    from strongroom.repo.listing.reader import Listing
    from strongroom.repo.snapshots import PageReference

# Up to so many rows numpy takes longer than a loop does: six times as long for five.
_FEW_ROWS: Final = 256
# The kernel stamps files with a clock that ticks every 1 to 10 ms; twice the coarsest tick.
CLOCK_TICK_NS: Final = 20_000_000


class ParentListing:
    """Looks directories up in the parent's listing."""

    def __init__(
        self,
        listing: Listing,
        blocks: ClientBlocks,
        start_ns: int,
        widest_rows: int,
        signature: str,
        warn: Callable[[str], None],
        cached: CachedListing | None = None,
    ) -> None:
        """`widest_rows`: directories of more rows are only offered in slices.

        `warn` gets each damage once. `cached`: where `listing` gets its pages, if it is a cache.
        """
        self._warn = warn
        self._warned: set[str] = set()
        self._listing = listing
        self._cached = cached
        self._blocks = ParentBlocks(listing, blocks)
        self._widest_rows = widest_rows
        self._signature = signature
        self.recent_limit_ns = start_ns - CLOCK_TICK_NS

    def directory(self, path: bytes, *, offers: bool) -> list[Rows]:
        """The rows of `path`; [] when it is not there, too wide, or not all in the repository.

        offers: whether public files in it are to be offered.
        """
        pieces = []
        row_count = 0
        try:
            for rows in self._listing.directory(path):
                row_count += rows.row_count
                if row_count > self._widest_rows:
                    return []
                pieces.append(rows)
        except DamageError as error:
            return self._damaged(error)
        return self._sound(pieces, offers)

    def between(self, path: bytes, first: bytes, last: bytes, *, offers: bool) -> list[Rows]:
        """The rows of `path` from name `first` to name `last`, both included."""
        pieces = []
        try:
            for rows in self._listing.directory_from(path, first):
                names = rows.name_list()
                if names[-1] <= last:
                    pieces.append(rows)
                    continue
                end = bisect_right(names, last)
                if end:
                    pieces.append(slice_rows(rows, 0, end))
                break
        except DamageError as error:
            return self._damaged(error)
        return self._sound(pieces, offers)

    def reference_of(self, page: list[Rows]) -> PageReference | None:
        """The parent's page whose rows these are, as they came from here; None: not known."""
        return self._listing.reference_of(page)

    def page_of(self, rows: Rows) -> list[Rows]:
        """The rows of the parent's page that `rows`, the very object, are of; [] if not known.

        Other rows may give those of any page.
        """
        return self._listing.beside(rows)

    def keep_again(self, keeper: ListingKeeper | None, block_id: bytes) -> bool:
        """Whether a page of the parent is kept for the next backup, too, if pages are."""
        if keeper is None:
            return True
        return self._cached is not None and keeper.add_again(block_id, self._cached)

    def joined(self, pieces: list[Rows]) -> Rows:
        """Join the pieces."""
        return join_rows(pieces)

    def digest(self, pieces: list[Rows]) -> bytes | None:
        """What `comparison_digest` gives for a live directory that is unchanged; or None."""
        if any(piece.states for piece in pieces):
            return None
        rows = join_rows(pieces)
        if newest_ctime_ns(rows.stats) >= self.recent_limit_ns:
            return None
        return comparison_digest(rows.names, rows.stats)

    def _damaged(self, error: DamageError) -> list[Rows]:
        text = str(error)
        if text not in self._warned:
            self._warned.add(text)
            self._warn(f"the parent's listing is damaged, so files are read again: {text}")
        return []

    def _sound(self, pieces: list[Rows], offers: bool) -> list[Rows]:
        sound = []
        for rows in pieces:
            if rows.signature_name != self._signature:
                return []
            if not rows.part_blocks:
                sound.append(rows)
                continue
            offered = self._blocks.offered(rows)
            if offered is None:
                return []
            if offers or offered is not False:
                sound.append(_to_be_read(rows, offered, offers))
            else:
                sound.append(rows)
        return sound


def _are_public(rows: Rows) -> bool:
    """Whether everybody may read each row that has content."""
    modes = memoryview(rows.stats).cast("q")[MODE::COLUMN_COUNT]
    return all(
        mode & stat.S_IROTH for mode, count in zip(modes, rows.part_counts, strict=True) if count
    )


def _to_be_read(rows: Rows, offered: NDArray[np.bool_] | bool, offers: bool) -> Rows:
    """`rows` with those marked as changed whose references are not `offered` as they are to be."""
    if offers and offered is True and rows.row_count <= _FEW_ROWS and _are_public(rows):
        return rows
    modes = np.frombuffer(rows.stats, "<i8")[MODE::COLUMN_COUNT]
    counts = np.frombuffer(rows.part_counts, np.uint32)
    wanted = np.repeat(modes & stat.S_IROTH != 0, counts) & offers
    differing = wanted != offered
    if not differing.any():
        return rows
    numbers = np.repeat(np.arange(rows.row_count), counts)[differing]
    return replace(rows, states={**rows.states, **dict.fromkeys(numbers.tolist(), CHANGED)})
