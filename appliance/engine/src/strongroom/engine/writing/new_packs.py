"""The packs that a job writes: opened here, and described by an index once they are stored.

An index names a pack only after the pack is in the store, so one that is interrupted leaves packs
without an index, which the next job of the client adopts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from typing_extensions import Buffer

from strongroom.engine.content.ciphers import BLOCK_OVERHEAD_SIZE
from strongroom.engine.repository.block_columns import BlockColumns
from strongroom.engine.repository.keys.owners import SHARED
from strongroom.engine.repository.packs import HEADER_SIZE, PackFooter
from strongroom.engine.repository.repository import Repository
from strongroom.engine.writing.pack_lanes import OpenPack

# An index is written whenever packs hold so many chunks: this bounds the footers in memory, and a
# job that resumes after an interruption has fewer of them to read.
INDEX_CHUNKS: Final = 100_000


class NewPacks:
    """A PackTarget: packs of `repository`, or of a dry run.

    For one thread, apart from `open_pack`.

    stored_bytes: size of the packs that were stored.
    """

    def __init__(self, repository: Repository, *, is_dry: bool = False) -> None:
        self._repository = repository
        self._is_dry = is_dry
        self._footers: list[PackFooter] = []
        self.stored_bytes = 0

    def open_pack(self, kind: int) -> OpenPack:
        """Begin a pack of KIND_DATA or KIND_LISTING."""
        return DryPack(kind) if self._is_dry else self._repository.new_pack(kind)

    def take(self, footer: PackFooter) -> None:
        """A pack was stored. Raises StoreError."""
        self.stored_bytes += footer.size_bytes
        self.adopt(footer)

    def adopt(self, footer: PackFooter) -> None:
        """Index a pack that an interrupted job stored. Raises StoreError."""
        if self._is_dry:
            return
        self._footers.append(footer)
        if sum(kept.columns.chunk_count for kept in self._footers) >= INDEX_CHUNKS:
            self.write_index()

    def write_index(self) -> None:
        """Index what was taken and adopted since the last time. Raises StoreError."""
        if self._footers:
            self._repository.write_index(self._footers)
        self._footers = []


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
