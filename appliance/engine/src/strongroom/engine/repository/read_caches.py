"""What readers of blocks keep: raw blocks, footers, ciphers of packs, lists of chunks.

Readers of several clients' blocks share one, so that memory does not grow with their number.
"""

from __future__ import annotations

import threading
from array import array
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from strongroom.engine.content.ciphers import BlockCipher
from strongroom.engine.repository.keys.owners import ContentKeys

if TYPE_CHECKING:
    # It imports numpy, which a list of snapshots does not need.
    from strongroom.engine.repository.packs import BlockEntry

# About a kilobyte each; no fewer than packs of which blocks are read ahead.
_PACKS_KEPT = 1024
_LISTS_KEPT = 64
_FOOTERS_KEPT_BYTES = 16 << 20

_Key = TypeVar("_Key", bound="Hashable")
_Value = TypeVar("_Value")


class PackAccess(NamedTuple):
    """Header and cipher of a pack."""

    header: bytes
    cipher: BlockCipher


class LoadedBlock(NamedTuple):
    """A block, its chunk list verified.

    extents: where each chunk begins and ends in `raw`, (-1, -1) for one whose bytes were dropped.
    """

    raw: bytes
    chunk_ids: bytes
    extents: list[tuple[int, int]]
    keys: ContentKeys


class RecentlyUsed(Generic[_Key, _Value]):
    """What was used last, up to a weight; one value is kept in any case. For any thread."""

    def __init__(self, limit: int, weight: Callable[[_Value], int] = lambda _: 1) -> None:
        self._limit = limit
        self._weight = weight
        self._lock = threading.Lock()
        self._values: OrderedDict[_Key, _Value] = OrderedDict()
        self._taken = 0

    def get(self, key: _Key) -> _Value | None:
        """The value, or None."""
        with self._lock:
            value = self._values.get(key)
            if value is not None:
                self._values.move_to_end(key)
            return value

    def keep(self, key: _Key, value: _Value) -> None:
        """Keep a value; another thread may have kept an equal one."""
        with self._lock:
            if key not in self._values:
                self._values[key] = value
                self._taken += self._weight(value)
            while self._taken > self._limit and len(self._values) > 1:
                _, oldest = self._values.popitem(last=False)
                self._taken -= self._weight(oldest)


class ReadCaches:
    """The caches of one reader or several, by client and pack or block; footers by pack."""

    def __init__(self, block_bytes: int) -> None:
        """block_bytes: of raw blocks."""
        self.blocks: RecentlyUsed[tuple[bytes, bytes], LoadedBlock] = RecentlyUsed(
            block_bytes, lambda block: len(block.raw)
        )
        self.packs: RecentlyUsed[tuple[bytes, bytes], PackAccess] = RecentlyUsed(_PACKS_KEPT)
        self.footers: RecentlyUsed[bytes, list[BlockEntry]] = RecentlyUsed(
            _FOOTERS_KEPT_BYTES, _memory_bytes
        )
        # Chunk ids of a block, and lengths.
        self.lists: RecentlyUsed[tuple[bytes, bytes], tuple[bytes, array[int]]] = RecentlyUsed(
            _LISTS_KEPT
        )


def _memory_bytes(entries: list[BlockEntry]) -> int:
    return sum(500 + len(entry.chunk_ids) + 4 * len(entry.chunk_lengths) for entry in entries)
