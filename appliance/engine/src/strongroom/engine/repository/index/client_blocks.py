"""The blocks that the snapshots of one client may refer to: its own, and shared ones."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from strongroom.base.errors import DamageError
from strongroom.engine.repository.index.block_rows import (
    SHARED_NUMBER,
    BlockLocation,
    BlockRows,
    IndexedPack,
)
from strongroom.engine.repository.index.id_table import OwnedIds


class ClientBlocks:
    """Blocks by id, as one client sees them; made by `Index.of_client`.

    A shared copy of a block is before one of the client's own: it is never thinned for having
    been shared. number: of the client among the owners of the index.
    """

    def __init__(self, index: BlockRows, table: OwnedIds, number: int) -> None:
        self.index = index
        self.number = number
        self._table = table
        self._shared_rows: NDArray[np.bool_] = np.zeros(0, np.bool_)

    @property
    def owner(self) -> bytes:
        """The id of the client."""
        return self.index.owners[self.number]

    def __contains__(self, block_id: bytes) -> bool:
        return self._row(block_id) >= 0

    def locate(self, block_id: bytes) -> BlockLocation:
        """Where a block is; DamageError when no pack that the client may refer to has it."""
        row = self._row(block_id)
        if row < 0:
            raise DamageError(
                f"block {block_id.hex()} is in no pack that the index knows; run repair"
            )
        return self.index.location_of(row)

    def copies(self, block_id: bytes) -> list[BlockLocation]:
        """Every location of a block. Scans all ids: only for when the first location fails."""
        return [self.index.location_of(row) for row in self.rows_of_copies(block_id).tolist()]

    def rows_of_copies(self, block_id: bytes) -> NDArray[np.int64]:
        """The row of every copy of a block. Scans all ids."""
        rows = self.index.rows_with(block_id)
        owners = self.index.owners_of_rows[rows]
        copies: NDArray[np.int64] = rows[(owners == self.number) | (owners == SHARED_NUMBER)]
        return copies

    def rows_of(self, block_ids: bytes) -> NDArray[np.int64]:
        """The row of each block (n * 24 bytes of ids), -1 for those not known."""
        rows = self._table.find(block_ids, self.number)
        if self._looks_further:
            shared = self._table.find(block_ids, SHARED_NUMBER)
            rows = np.where(shared >= 0, shared, rows)
        return rows

    def rows_by_owner(self, block_ids: bytes) -> list[tuple[bytes, NDArray[np.int64]]]:
        """`rows_of` among the client's own packs, and among the shared ones."""
        numbers = [self.number, SHARED_NUMBER] if self._looks_further else [self.number]
        owners = self.index.owners
        return [(owners[number], self._table.find(block_ids, number)) for number in numbers]

    def has_blocks(self, block_ids: bytes) -> NDArray[np.bool_]:
        """Which of n * 24 bytes of ids are in a pack that is not marked."""
        return self.usable_rows(block_ids) >= 0

    def usable_rows(self, block_ids: bytes) -> NDArray[np.int64]:
        """A row of each block (n * 24 bytes of ids) in a pack that is not marked, else -1."""
        found = self._unmarked(block_ids, self.number)
        if self._looks_further and found.size and found.min() < 0:
            found = np.maximum(found, self._unmarked(block_ids, SHARED_NUMBER))
        return found

    def _unmarked(self, block_ids: bytes, owner: int) -> NDArray[np.int64]:
        found = self._table.find(block_ids, owner)
        known = np.flatnonzero(found >= 0)
        found[known[self.index.is_marked(found[known])]] = -1
        return found

    def is_shared(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which rows are of shared packs; -1 is none."""
        if not self.index.has_shared:
            return np.zeros(len(rows), np.bool_)
        if len(self._shared_rows) != len(self.index) + 1:
            self._shared_rows = np.append(self.index.owners_of_rows == SHARED_NUMBER, False)
        found: NDArray[np.bool_] = self._shared_rows[rows]
        return found

    def packs_holding(self, block_ids: bytes) -> list[IndexedPack]:
        """Every pack with a copy of any of n * 24 bytes of ids; ids not known are passed over."""
        index = self.index
        is_wanted = np.zeros(len(index) + 1, np.bool_)  # the last for -1
        is_wanted[self.rows_of(block_ids)] = True
        is_wanted[-1] = False
        owners = index.owners_of_rows
        mine = np.flatnonzero((owners == self.number) | (owners == SHARED_NUMBER))
        ids = np.frombuffer(index.block_ids(), np.uint8).reshape(len(index), -1)[mine]
        best_copies = self.rows_of(ids.tobytes())
        numbers = np.unique(index.pack_numbers[mine[is_wanted[best_copies]]])
        packs = index.packs()
        return [packs[number] for number in numbers.tolist()]

    @property
    def _looks_further(self) -> bool:
        """Whether shared packs may have a block; spares most lookups where nothing is shared."""
        return self.index.has_shared and self.number != SHARED_NUMBER

    def _row(self, block_id: bytes) -> int:
        row = -1
        if self._looks_further:
            row = self._table.find_one(block_id, SHARED_NUMBER)
        return row if row >= 0 else self._table.find_one(block_id, self.number)
