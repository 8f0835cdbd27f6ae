"""Merges the files made from a source's streams into the root of the listing."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from strongroom.errors import SourceError
from strongroom.printable import printable
from strongroom.rows.rows import slice_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strongroom.rows.rows import Rows


class StreamRows:
    """Holds rows of streams until their place among the scanned rows of the root is reached."""

    def __init__(self) -> None:
        self._held: Rows | None = None

    def hold(self, rows: Rows) -> None:
        """The rows of all streams, in order."""
        self._held = rows if rows.row_count else None

    def among(self, rows: Rows) -> Iterator[Rows]:
        """`rows`, the next of the root, merged with the held rows that sort among them.

        Raises SourceError when two have the same name.
        """
        held = self._held
        if held is None:
            yield rows
            return
        names = rows.name_list()
        done = 0
        for number, name in enumerate(held.name_list()):
            place = bisect_left(names, name)
            if place == rows.row_count:
                self._held = slice_rows(held, number, held.row_count)
                break
            if names[place] == name:
                shown = printable(name)
                raise SourceError(f"a stream is named {shown}, as is a path that is backed up")
            if place > done:
                yield slice_rows(rows, done, place)
            yield slice_rows(held, number, number + 1)
            done = place
        else:
            self._held = None
        if done < rows.row_count:
            yield slice_rows(rows, done, rows.row_count)

    def rest(self) -> Iterator[Rows]:
        """The remaining held rows, once the root has no more scanned rows."""
        held, self._held = self._held, None
        if held is not None:
            yield held
