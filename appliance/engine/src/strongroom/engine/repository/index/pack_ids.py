"""Ids of packs in order, each with a number: 48 bytes a pack, and no more while they are sought.

A list of packs is made once and searched for all of another, so sorting takes less than a table.
Their first eight bytes are sorted and searched, as numbers; all bytes are compared where these are
equal. So what a client stores cannot make it slower than a search for whole ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from strongroom.engine.content.digests import OBJECT_NAME_SIZE

_SORTED: Final = np.dtype(f"S{OBJECT_NAME_SIZE}")
# Its items are all bytes of an id; those of the other lack zeros at the end.
_WHOLE: Final = np.dtype(f"V{OBJECT_NAME_SIZE}")
# Ids that are sought at once.
_PIECE: Final = 1 << 17


class PackIds:
    """numbers: in the order of the ids, of equal ones in the order in which they were given."""

    def __init__(self, ids: bytes | NDArray[np.void], numbers: NDArray[np.int64] | int = 0) -> None:
        """ids: n * 32 bytes. numbers: n of them, or the one of all; not below 0, but for -2."""
        columns = _columns(ids)
        heads = _heads(columns)
        order = np.argsort(heads, kind="stable")
        heads = heads[order]
        like_next = heads[1:] == heads[:-1]
        if like_next.any():
            alike = np.append(like_next, False) | np.append(False, like_next)
            some = order[alike]
            order[alike] = some[np.argsort(columns[some], kind="stable")]
        self._ids = columns[order]
        self._heads = heads
        self.numbers = np.full(len(order), 0, np.int64) + numbers
        if not isinstance(numbers, int):
            self.numbers = numbers[order]

    def __len__(self) -> int:
        return len(self._ids)

    def places(self, ids: bytes | NDArray[np.void]) -> NDArray[np.intp]:
        """The place of each of n * 32 bytes of ids, of equal ones the first; -1 of others."""
        columns = np.frombuffer(ids, _WHOLE) if isinstance(ids, bytes) else ids
        found = np.full(len(columns), -1, np.intp)
        for start in range(0, len(columns) if len(self._ids) else 0, _PIECE):
            piece = _columns(columns[start : start + _PIECE])
            heads = _heads(piece)
            # In order, so that neighbours in memory are sought one after the other.
            order = np.argsort(heads, kind="stable")
            heads, piece = heads[order], piece[order]
            at = np.minimum(np.searchsorted(self._heads, heads), len(self._ids) - 1)
            hit = self._ids[at] == piece
            begun = np.flatnonzero((self._heads[at] == heads) & ~hit)
            if len(begun):
                # Others begin like it, and one of them may be it.
                at[begun] = np.searchsorted(self._ids, piece[begun])
                at[begun] = np.minimum(at[begun], len(self._ids) - 1)
                hit[begun] = self._ids[at[begun]] == piece[begun]
            found[start + order[hit]] = at[hit]
        return found

    def find(self, ids: bytes | NDArray[np.void]) -> NDArray[np.int64]:
        """The number of each of n * 32 bytes of ids, of equal ones the first; -1 of others."""
        places = self.places(ids)
        return np.where(places >= 0, np.append(self.numbers, -1)[places], -1)

    def __contains__(self, pack_id: bytes) -> bool:
        return bool(self.places(pack_id)[0] >= 0)

    def chosen(self, which: NDArray[np.bool_]) -> Sequence[bytes]:
        """Some of the ids, in order."""
        some: list[bytes] = self._ids[which].view(_WHOLE).tolist()
        return some


def _columns(ids: bytes | NDArray[np.void]) -> NDArray[Any]:
    if isinstance(ids, bytes):
        return np.frombuffer(ids, _SORTED)
    return np.ascontiguousarray(ids).view(_SORTED)


def _heads(columns: NDArray[Any]) -> NDArray[np.uint64]:
    """The first eight bytes of each, as numbers in the same order."""
    words = columns.view(">u8").reshape(-1, OBJECT_NAME_SIZE // 8)
    return words[:, 0].astype(np.uint64)
