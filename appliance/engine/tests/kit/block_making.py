"""Packs of given chunks, as an honest writer or a forger makes them."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING

from strongroom.content.codecs import AUTO, Compression, Compressor
from strongroom.content.digests import block_id, chunk_id, ids_and_lengths
from strongroom.repo.packs import KIND_DATA

if TYPE_CHECKING:
    from strongroom.repo.keys.owners import ContentKeys
    from strongroom.repo.packs import PackFooter
    from strongroom.repo.repository import Repository

Chunks = Sequence[bytes]


def chunk_ids_of(keys: ContentKeys, chunks: Chunks) -> bytes:
    """The ids of chunks, joined."""
    return b"".join(chunk_id(keys.chunk_key, chunk) for chunk in chunks)


def block_id_of(keys: ContentKeys, chunks: Chunks) -> bytes:
    """The id of the block of these chunks."""
    lengths = array("I", map(len, chunks))
    text = ids_and_lengths(chunk_ids_of(keys, chunks), lengths)
    return block_id(keys.block_key, text)


def make_pack(
    repository: Repository,
    blocks: Sequence[Chunks],
    kind: int = KIND_DATA,
    compression: Compression = AUTO,
) -> PackFooter:
    """Publish a pack of blocks, each given as its chunks."""
    compressor = Compressor(compression)
    pack = repository.new_pack(kind)
    for chunks in blocks:
        raw = b"".join(chunks)
        codec, data = compressor.compress(raw)
        pack.add(
            block_id_of(repository.writer.client.own, chunks),
            chunk_ids_of(repository.writer.client.own, chunks),
            array("I", map(len, chunks)),
            codec,
            data,
            len(raw),
        )
    return pack.finish()


def make_thinned_pack(repository: Repository, chunks: Chunks, live: Sequence[bool]) -> PackFooter:
    """Publish a pack of one block that has lost the chunks that are not `live`."""
    dead = bytearray((len(chunks) + 7) // 8)
    for slot, is_live in enumerate(live):
        if not is_live:
            dead[slot // 8] |= 1 << slot % 8
    raw = b"".join(chunk for chunk, is_live in zip(chunks, live, strict=True) if is_live)
    codec, data = Compressor(AUTO).compress(raw)
    pack = repository.new_pack(KIND_DATA)
    pack.add(
        block_id_of(repository.writer.client.own, chunks),
        chunk_ids_of(repository.writer.client.own, chunks),
        array("I", map(len, chunks)),
        codec,
        data,
        len(raw),
        bytes(dead),
    )
    return pack.finish()
