"""Whether a backup found just what its parent holds, so that a snapshot would say nothing new.

Pages of listings are named by their content, so equal names are enough. The folders above the
paths that were named are listed, too, and change whenever something beside those paths does; that
does not count, so pages that hold such rows are compared without them.
"""

from __future__ import annotations

from collections.abc import Sequence

from blake3 import blake3

from strongroom.base.errors import DamageError
from strongroom.engine.backup.parent import ParentListing
from strongroom.engine.repository.listing.page import encode_page
from strongroom.engine.repository.snapshots import PageReference
from strongroom.engine.rows.rows import Rows, split_rows
from strongroom.engine.rows.views import join_path, split_path


class ContentComparison:
    """Compares the listing that is being written of `paths` with the parent's."""

    def __init__(self, paths: Sequence[bytes]) -> None:
        self._above = _folders_above(paths)
        # Of pages with rows of such folders, by place: a digest of all other rows.
        self._digests: dict[int, bytes] = {}

    def note(self, place: int, page: list[Rows]) -> None:
        """Page `place` has these rows, and is not known to be a page of the parent."""
        digest = self._digest(page)
        if digest is not None:
            self._digests[place] = digest

    def finds_nothing_new(self, pages: Sequence[PageReference], parent: ParentListing) -> bool:
        """Whether these pages, which are all, hold what the parent's do. Raises StoreError."""
        before = parent.page_blocks
        if len(before) != len(pages):
            return False
        try:
            return all(
                page.block_id == block
                or (
                    place in self._digests
                    and self._digests[place] == self._digest(parent.page(place))
                )
                for place, (page, block) in enumerate(zip(pages, before, strict=True))
            )
        except DamageError:
            return False

    def _digest(self, page: list[Rows]) -> bytes | None:
        """Of the rows that are not of folders above; None if all are to be compared."""
        kept = []
        found = False
        for rows in page:
            if rows.directory not in self._above:
                kept.append(rows)
                continue
            names = rows.name_list()
            numbers = [
                number
                for number, name in enumerate(names)
                if join_path(rows.directory, name) in self._above
            ]
            found = found or bool(numbers)
            cuts = [cut for number in numbers for cut in (number, number + 1)]
            # Every second piece is one of these rows.
            kept += [piece for piece in split_rows(rows, cuts)[::2] if piece.row_count]
        if not found:
            return None
        return blake3(encode_page(kept) if kept else b"").digest()


def _folders_above(paths: Sequence[bytes]) -> frozenset[bytes]:
    """The folders above `paths` that are not in one of them, the root as b""."""
    named = frozenset(paths)
    above: set[bytes] = set()
    for path in paths:
        folders = []
        folder = path
        while folder:
            folder = split_path(folder)[0]
            folders.append(folder)
        inside = [number for number, folder in enumerate(folders) if folder in named]
        above.update(folders[inside[-1] + 1 if inside else 0 :])
    return frozenset(above)
