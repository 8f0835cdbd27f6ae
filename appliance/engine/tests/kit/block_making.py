"""Packs of given chunks, as an honest writer or a forger makes them."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from strongroom.engine.content.codecs import AUTO, Compression, Compressor
from strongroom.engine.content.digests import block_id, chunk_id, ids_and_lengths
from strongroom.engine.repository.keys.owners import SHARED
from strongroom.engine.repository.packs import KIND_DATA, PackFooter
from strongroom.engine.repository.repository import Repository

Chunks = Sequence[bytes]


def chunk_ids_of(repository: Repository, chunks: Chunks, *, offered: bool = False) -> bytes:
    """The ids of chunks, joined, as the repository's client or, if offered, as all clients."""
    key = repository.writer.client.content(offered=offered).chunk_key
    return b"".join(chunk_id(key, chunk) for chunk in chunks)


def block_id_of(repository: Repository, chunks: Chunks, *, offered: bool = False) -> bytes:
    """The id of the block of these chunks."""
    lengths = array("I", map(len, chunks))
    text = ids_and_lengths(chunk_ids_of(repository, chunks, offered=offered), lengths)
    return block_id(repository.writer.client.content(offered=offered).block_key, text)


def make_pack(
    repository: Repository,
    blocks: Sequence[Chunks],
    kind: int = KIND_DATA,
    compression: Compression = AUTO,
    *,
    offered: bool = False,
    shared: bool = False,
) -> PackFooter:
    """Publish a pack of blocks, each given as its chunks, of the client or for all clients."""
    compressor = Compressor(compression)
    offered = offered or shared
    pack = repository.new_pack(kind, SHARED if shared else None)
    for chunks in blocks:
        raw = b"".join(chunks)
        codec, data = compressor.compress(raw)
        pack.add(
            block_id_of(repository, chunks, offered=offered),
            chunk_ids_of(repository, chunks, offered=offered),
            array("I", map(len, chunks)),
            codec,
            data,
            len(raw),
            offered=offered,
        )
    return pack.finish()


def make_thinned_pack(
    repository: Repository,
    chunks: Chunks,
    live: Sequence[bool],
    *,
    offered: bool = False,
    shared: bool = False,
) -> PackFooter:
    """Publish a pack of one block that has lost the chunks that are not `live`."""
    offered = offered or shared
    dead = bytearray((len(chunks) + 7) // 8)
    for slot, is_live in enumerate(live):
        if not is_live:
            dead[slot // 8] |= 1 << slot % 8
    raw = b"".join(chunk for chunk, is_live in zip(chunks, live, strict=True) if is_live)
    codec, data = Compressor(AUTO).compress(raw)
    pack = repository.new_pack(KIND_DATA, SHARED if shared else None)
    pack.add(
        block_id_of(repository, chunks, offered=offered),
        chunk_ids_of(repository, chunks, offered=offered),
        array("I", map(len, chunks)),
        codec,
        data,
        len(raw),
        bytes(dead),
        offered=offered,
    )
    return pack.finish()
