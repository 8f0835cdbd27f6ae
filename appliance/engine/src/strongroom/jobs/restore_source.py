"""Content of a repository as a restore and a verify need it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from strongroom.repo.blocks import BlockReader


class StoredContent:
    """A ContentSource over a BlockReader."""

    def __init__(self, reader: BlockReader) -> None:
        self._reader = reader
        self.chunk = reader.chunk

    def length(self, block_id: bytes, slot: int) -> int:
        """The length of a part, without reading it. Raises DamageError."""
        return self._reader.chunk_length(block_id, slot)

    def is_chunk(self, block_id: bytes, slot: int, data: bytes | memoryview) -> bool:
        """Whether `data` is the part, without reading that. Raises DamageError."""
        return self._reader.is_chunk(block_id, slot, data)
