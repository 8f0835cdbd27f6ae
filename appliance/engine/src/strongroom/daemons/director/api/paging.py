"""Listings in pages, filtered by permissions: pages are full although rows are left out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeVar

from fastapi import Query

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

Row = TypeVar("Row")

Cursor = Annotated[
    str,
    Query(
        max_length=18,
        pattern="^[0-9]*$",
        description="`next` of the page before; empty for the first page.",
    ),
]
PageSize = Annotated[int, Query(ge=1, le=1000, description="Most items of a page.")]
_READ_AT_ONCE = 1000


async def filtered_page(
    read: Callable[[int, int], Awaitable[list[Row]]],
    may_see: Callable[[Row], bool],
    after: str,
    limit: int,
) -> tuple[list[Row], str | None]:
    """The next `limit` rows that `may_see` allows, and the cursor of the page after.

    `read`: from offset and count to rows, fewer than asked for only at the end. The cursor is the
    offset of the next row, so a listing that grows at its head while it is read shows a row twice
    rather than none.
    """
    offset = int(after or 0)
    found: list[Row] = []
    # Most callers see all rows, and get them from the first read.
    count = limit + 1
    while True:
        rows = await read(offset, count)
        for row in rows:
            if may_see(row):
                if len(found) == limit:
                    return found, str(offset)
                found.append(row)
            offset += 1
        if len(rows) < count:
            return found, None
        count = _READ_AT_ONCE
