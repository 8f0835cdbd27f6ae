"""Readers of the blocks of several clients, one each; they share an index and caches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strongroom.engine.repository.read_caches import ReadCaches

if TYPE_CHECKING:
    from strongroom.engine.repository.blocks import BlockReader
    from strongroom.engine.repository.index.block_rows import PlacesByClient
    from strongroom.engine.repository.repository import Repository

_CACHE_BYTES = 32 << 20


class ClientReaders:
    """Makes a reader when a client is first asked for; for one thread at a time."""

    def __init__(
        self, repository: Repository, index: PlacesByClient, cache_bytes: int = _CACHE_BYTES
    ) -> None:
        """cache_bytes: of all readers together."""
        self._repository = repository
        self._index = index
        self._caches = ReadCaches(cache_bytes)
        self._readers: dict[bytes, BlockReader] = {}

    def of(self, owner: bytes) -> BlockReader:
        """The reader for the snapshots of a client; KeyRightError with a put key."""
        reader = self._readers.get(owner)
        if reader is None:
            blocks = self._index.of_client(owner)
            reader = self._readers[owner] = self._repository.block_reader(blocks, self._caches)
        return reader
