"""What rows may hold between the scan of a directory and the listing, and no listing does."""

from __future__ import annotations

from typing import Final

from strongroom.rows.rows import Rows, join_rows, slice_rows, split_rows

# How the root itself is called while it is scanned along with what it holds.
ROOT_NAME: Final = b"."
# The state of rows whose file is not there any more; they are left out of the listing.
VANISHED: Final = 3


def without_vanished(rows: Rows) -> Rows:
    """The rows that are still there, of rows whose content is settled."""
    gone = sorted(row for row, state in rows.states.items() if state == VANISHED)
    if not gone:
        return rows
    pieces = split_rows(rows, sorted({cut for row in gone for cut in (row, row + 1)}))
    kept = [piece for piece in pieces if VANISHED not in piece.states.values()]
    return join_rows(kept) if kept else slice_rows(rows, 0, 0)
