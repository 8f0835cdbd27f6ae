"""Follow symbolic links within a snapshot, as they would have led on the machine then."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING, Final

from strongroom.engine.rows.views import join_path

if TYPE_CHECKING:
    from strongroom.engine.repository.listing.reader import Listing

# As Linux does.
_MOST_LINKS: Final = 40


def followed(listing: Listing, path: bytes, *, enters: bool = False) -> bytes | None:
    """Where the snapshot has `path`; None: nowhere. DamageError, StoreError.

    enters: a link at its end is followed, too. A link may lead out of what was backed up; then
    nothing is found.
    """
    if not enters and listing.lookup(path) is not None:
        return path
    steps = [step for step in reversed(path.split(b"/")) if step]
    at = b""
    links = 0
    while steps:
        step = steps.pop()
        if step == b"..":
            at = at.rpartition(b"/")[0]
            continue
        if step == b".":
            continue
        below = join_path(at, step)
        row = listing.lookup(below)
        if row is None:
            return None
        if not stat.S_ISLNK(row.mode) or not (steps or enters):
            at = below
            continue
        links += 1
        if links > _MOST_LINKS:
            return None
        if row.target.startswith(b"/"):
            at = b""
        steps += [one for one in reversed(row.target.split(b"/")) if one]
    return at
