"""Coverage-guided fuzzing of the index decoder, of which pack footers share the columns.

    python fuzz/fuzz_index.py --seeds DIRECTORY            write a seed corpus
    python fuzz/fuzz_index.py DIRECTORY [libFuzzer options]

Whatever the sealed bytes are, of a client's object or of one for all, reading gives an index object
or DamageError; what is read holds together: every column has as many rows as it must, and it can be
written again. The digest of the second part, with which the first begins, is always right.
"""

from __future__ import annotations

import struct

import atheris
from sealed_objects import KEY, PUT, OneObject, cut, joined, run

with atheris.instrument_imports(include=["strongroom"]):
    from strongroom.base.errors import DamageError
    from strongroom.engine.content.ciphers import NONE, open_object, seal_object
    from strongroom.engine.content.digests import object_name
    from strongroom.engine.repository.block_columns import BlockColumns
    from strongroom.engine.repository.index.objects import read_index_object, write_index_object
    from strongroom.engine.repository.keys.owners import SHARED
    from strongroom.engine.repository.packs import PackFooter

from blake3 import blake3

HEAD = struct.Struct("<4sB3x16sI")
DIGEST_SIZE = 32
FIRST_LABEL = b"strongroom index 1"
SECOND_LABEL = b"strongroom index chunks 1"


class _Kept:
    """Takes what is written."""

    data = b""

    def put(self, kind: str, name: str, data: bytes) -> None:
        self.data = bytes(data)


def check_index(data: bytes) -> None:
    for owner in (PUT.client_id, SHARED):
        check_object(owner, *cut(data))


def check_object(owner: bytes, first: bytes, second: bytes) -> None:
    index_key = KEY.owner(owner).index_key
    tail = seal_object(index_key, SECOND_LABEL, second, NONE)
    sealed = seal_object(index_key, FIRST_LABEL, blake3(tail).digest() + first, NONE)
    stored = HEAD.pack(b"SRIX", 1, owner, len(sealed)) + sealed
    if owner == SHARED:
        stored += KEY.sign(b"strongroom shared index 1" + stored)
    stored += tail
    for chunks in (False, True):
        try:
            read = read_index_object(OneObject(stored), KEY, object_name(stored), chunks=chunks)
        except DamageError:
            continue
        for footer in read.footers:
            assert len(footer.columns.block_ids) == 24 * footer.columns.block_count
            assert len(footer.pack_id) == 32
        if chunks:
            kept = _Kept()
            write_index_object(kept, KEY, owner, read.footers, read.superseded, NONE)
            again = read_index_object(
                OneObject(kept.data), KEY, object_name(kept.data), chunks=True
            )
            assert again.footers == read.footers


def seed_indexes() -> list[bytes]:
    """Plain texts of small indexes."""
    seeds = []
    for packs in ([], [(1, 1)], [(3, 5), (0, 0), (2, 1)]):
        footers = []
        for number, (blocks, chunks) in enumerate(packs):
            count = blocks * chunks
            columns = BlockColumns(
                block_ids=bytes(range(24)) * blocks,
                codecs=b"\1" * blocks,
                stored_lengths=struct.pack("<I", 100) * blocks,
                raw_lengths=struct.pack("<I", 7 * chunks) * blocks,
                chunk_counts=struct.pack("<H", chunks) * blocks,
                flags=bytes(blocks),
                chunk_ids=bytes(24) * count,
                chunk_lengths=struct.pack("<I", 7) * count,
                dead=b"",
            )
            footers.append(
                PackFooter(PUT.client_id, bytes([number]) * 32, number % 2, 1000, columns)
            )
        kept = _Kept()
        write_index_object(kept, KEY, PUT.client_id, footers, ["ab" * 32] * len(packs), NONE)
        size = HEAD.unpack_from(kept.data)[3]
        first = kept.data[HEAD.size : HEAD.size + size]
        index_key = PUT.client.index_key
        seeds.append(
            joined(
                open_object(index_key, FIRST_LABEL, first)[DIGEST_SIZE:],
                open_object(index_key, SECOND_LABEL, kept.data[HEAD.size + size :]),
            )
        )
    return seeds


if __name__ == "__main__":
    run(check_index, seed_indexes)
