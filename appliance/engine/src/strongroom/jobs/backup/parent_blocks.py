"""Which blocks that rows of the parent refer to are still there, and which are offered to share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from strongroom.content.digests import BLOCK_ID_SIZE
from strongroom.rows.block_runs import distinct_blocks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from strongroom.repo.index.client_blocks import ClientBlocks
    from strongroom.repo.listing.reader import Listing
    from strongroom.rows.rows import Rows

_BLOCK_ID: Final = np.dtype((np.void, BLOCK_ID_SIZE))
# Blocks of which it is remembered that they are in the repository; about 100 bytes each.
_KNOWN_LIMIT: Final = 65_536


class ParentBlocks:
    """Looks up the blocks of rows of `listing`: all of a page at once, neighbours share them."""

    def __init__(self, listing: Listing, blocks: ClientBlocks) -> None:
        self._listing = listing
        self._blocks = blocks
        # Pages of which all blocks may be referred to, and either all are offered or none.
        self._alike: dict[int, bool] = {}
        # Whether blocks are offered; None: they may not be referred to.
        self._known: dict[bytes, bool | None] = {}

    def offered(self, rows: Rows) -> NDArray[np.bool_] | bool | None:
        """Whether the blocks of `rows`, which have some, are offered: all, none, or each reference.

        None: one of them may not be referred to.
        """
        number = self._listing.number_of(rows)
        alike = self._alike.get(number)
        if alike is not None:
            return alike
        blocks = np.frombuffer(rows.part_blocks, _BLOCK_ID).tolist()
        distinct = set(blocks)
        if not all(map(self._known.__contains__, distinct)):
            self._learn(number, rows)
        states = {self._known[block] for block in distinct}
        if None in states:
            return None
        if len(states) == 1:
            return True in states
        return np.fromiter([bool(self._known[block]) for block in blocks], np.bool_, len(blocks))

    def _learn(self, number: int, rows: Rows) -> None:
        """Look up the blocks of `rows` and of all others on their page, if it is at hand."""
        if len(self._known) > _KNOWN_LIMIT:
            self._known.clear()
        beside = self._listing.beside(rows)
        wanted = distinct_blocks(b"".join([one.part_blocks for one in (rows, *beside)]))
        new = list(wanted - self._known.keys())
        found = self._blocks.usable_rows(b"".join(new))
        self._known.update(dict.fromkeys(new))
        usable = np.flatnonzero(found >= 0)
        if len(usable):
            offered = self._blocks.index.are_offered(found[usable]).tolist()
            blocks = map(new.__getitem__, usable.tolist())
            self._known.update(zip(blocks, offered, strict=True))
        states = {self._known[block] for block in wanted}
        if beside and len(states) == 1 and None not in states:
            self._alike[number] = True in states
