"""A table from block ids to rows of an index, a block id counting for one owner only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from strongroom.content.digests import BLOCK_ID_SIZE, BLOCK_ID_WORDS
from strongroom.repo.index.id_table import IdTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_WORD_SIZE = 8


class OwnedIds:
    """Numbers by block id and number of an owner; for one thread at a time."""

    def __init__(self) -> None:
        self._table = IdTable(BLOCK_ID_SIZE + _WORD_SIZE)

    def add(self, block_ids: bytes, owners: NDArray[np.int64], values: NDArray[np.int64]) -> None:
        """Add n * 24 bytes of ids, n owners and n values; of equal ones the first counts."""
        words = _keys(block_ids, owners)
        if len(words):
            self._table.add_columns([words[:, at].copy() for at in range(words.shape[1])], values)

    def add_recent(self, block_ids: bytes, owner: int, values: Sequence[int]) -> None:
        """Add a few of one owner, which count before those added earlier."""
        self._table.add(_keys(block_ids, owner).tobytes(), values)

    def find(self, block_ids: bytes, owner: int) -> NDArray[np.int64]:
        """The value of each of n * 24 bytes of ids for an owner, -1 where there is none."""
        return self._table.find_words(_keys(block_ids, owner))

    def find_of(self, block_ids: bytes, owners: NDArray[np.int64]) -> NDArray[np.int64]:
        """`find` for an owner of each id."""
        return self._table.find_words(_keys(block_ids, owners))

    def find_one(self, block_id: bytes, owner: int) -> int:
        """The value of one id, or -1."""
        return self._table.find_one(block_id + owner.to_bytes(_WORD_SIZE, "little"))


def _keys(block_ids: bytes, owners: NDArray[np.int64] | int) -> NDArray[np.uint64]:
    """Ids and owners (one for each id, or one for all) as rows of words."""
    keys = np.empty((len(block_ids) // BLOCK_ID_SIZE, BLOCK_ID_WORDS + 1), np.uint64)
    keys[:, :-1] = np.frombuffer(block_ids, np.uint64).reshape(-1, BLOCK_ID_WORDS)
    keys[:, -1] = owners
    return keys
