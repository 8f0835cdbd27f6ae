"""A pack that is never written: a dry run uses it to measure blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strongroom.content.ciphers import BLOCK_OVERHEAD_SIZE
from strongroom.repo.block_columns import BlockColumns
from strongroom.repo.keys.owners import SHARED
from strongroom.repo.packs import HEADER_SIZE, PackFooter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer


class DryPack:
    """Has the methods of a PackWriter and only counts bytes."""

    def __init__(self, kind: int) -> None:
        self._kind = kind
        self.size_bytes = HEADER_SIZE

    def add(
        self,
        block_id: bytes,
        chunk_ids: Buffer,
        chunk_lengths: Sequence[int],
        codec: int,
        compressed: Buffer,
        raw_length: int,
        *,
        offered: bool = False,
    ) -> None:
        """Count a block."""
        self.size_bytes += memoryview(compressed).nbytes + BLOCK_OVERHEAD_SIZE

    def finish(self) -> PackFooter:
        """A footer that names no block."""
        columns = BlockColumns(b"", b"", b"", b"", b"", b"", b"", b"", b"")
        return PackFooter(SHARED, bytes(32), self._kind, self.size_bytes, columns)

    def abort(self) -> None:
        """Nothing to discard."""
