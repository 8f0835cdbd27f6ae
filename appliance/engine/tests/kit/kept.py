"""What a client knows of the chunks of a repository."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strongroom.engine.content.digests import CHUNK_ID_SIZE
from strongroom.engine.repository.index.chunk_table import ChunkTable
from strongroom.engine.repository.index.kept_index import KeptIndex

if TYPE_CHECKING:
    from strongroom.engine.repository.repository import Repository


def loaded_index(repository: Repository) -> KeptIndex:
    """The kept index of the repository's client, ready for `claim`."""
    owner = repository.writer.client_id
    index = KeptIndex(repository.store, repository.key, owner, repository.cache_folder)
    index.load_chunks()
    return index


def loaded_table(repository: Repository) -> ChunkTable:
    """What a backup of the repository's client deduplicates with."""
    return ChunkTable(loaded_index(repository))


def known_chunks(repository: Repository) -> set[bytes]:
    """The ids of all chunks that the client may refer to."""
    index = loaded_index(repository)
    ids = [
        bytes(an_id.tobytes())
        for chunks in index._runs.chunks  # noqa: SLF001
        for _, entries in chunks.run.file.windows()
        for an_id in entries["id"]
    ]
    return {an_id for an_id in ids if index.claim(an_id[:CHUNK_ID_SIZE])}
