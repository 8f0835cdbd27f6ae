"""Markers in rows between the scan of a directory and the listing; no listing holds them."""

from __future__ import annotations

from typing import Final

from strongroom.engine.rows.rows import Rows, join_rows, slice_rows, split_rows

# Name of the root itself while it is scanned together with its entries.
ROOT_NAME: Final = b"."
# State of rows whose file has vanished; they are left out of the listing.
VANISHED: Final = 3


def without_vanished(rows: Rows) -> tuple[Rows, list[bytes]]:
    """The rows whose file still exists, of rows with final content, and names of the others."""
    gone = sorted(row for row, state in rows.states.items() if state == VANISHED)
    if not gone:
        return rows, []
    names = rows.name_list()
    lost = [names[row] for row in gone]
    pieces = split_rows(rows, sorted({cut for row in gone for cut in (row, row + 1)}))
    kept = [piece for piece in pieces if VANISHED not in piece.states.values()]
    return (join_rows(kept) if kept else slice_rows(rows, 0, 0)), lost
