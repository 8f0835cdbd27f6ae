"""Coverage-guided fuzzing of the pack decoder: header, trailer and sealed footer.

    python fuzz/fuzz_pack.py --seeds DIRECTORY            write a seed corpus
    python fuzz/fuzz_pack.py DIRECTORY [libFuzzer options]

The input is the raw pack, or, behind a first byte of 1, the text of a footer that is then sealed
into a client's pack, and a shared one, with blocks of the size it claims. Reading gives a footer or
a StrongroomError.
"""

from __future__ import annotations

import struct

import atheris
from sealed_objects import KEY, PUT, OneObject, run

with atheris.instrument_imports(include=["strongroom"]):
    from strongroom.base.errors import StrongroomError
    from strongroom.engine.content.ciphers import NONE, seal_object
    from strongroom.engine.repository.block_columns import BlockColumns, encode_head, encode_tail
    from strongroom.engine.repository.keys.owners import SHARED
    from strongroom.engine.repository.keys.roles import footer_key
    from strongroom.engine.repository.packs import read_footer

from blake3 import blake3

HEADER_SIZE = 56


def check_pack(data: bytes) -> None:
    if data[:1] != b"\1":
        check_stored(data)
        return
    for owner in (PUT.client_id, SHARED):
        head = header(owner)
        size = int.from_bytes(data[1:3], "little")
        one_key = footer_key(KEY.owner(owner), head)
        footer = seal_object(one_key, b"strongroom footer 1", data[3:], NONE)
        signature = b""
        if owner == SHARED:
            signature = KEY.sign(b"strongroom shared pack 1" + head + blake3(footer).digest())
        end = struct.pack("<I4s", len(footer), b"SRPF")
        check_stored(head + bytes(size) + footer + signature + end)


def header(owner: bytes) -> bytes:
    return struct.pack("<4sBBBx16s32s", b"SRPK", 1, NONE, 0, owner, bytes(32))


def check_stored(stored: bytes) -> None:
    try:
        footer = read_footer(OneObject(stored), KEY, bytes(32))
    except StrongroomError:
        return
    offset = HEADER_SIZE
    for block in footer.blocks:
        assert block.offset == offset
        assert len(block.chunk_ids) == 24 * len(block.chunk_lengths)
        offset += block.stored_length


def seed_packs() -> list[bytes]:
    """Raw packs, and footers to seal."""
    seeds = [header(PUT.client_id) + bytes(64), header(SHARED) + bytes(128), b""]
    for blocks, chunks, dead in ((1, 1, b""), (3, 20, b""), (1, 9, b"\3\1")):
        count = blocks * chunks
        columns = BlockColumns(
            block_ids=bytes(range(24)) * blocks,
            codecs=b"\1" * blocks,
            stored_lengths=struct.pack("<I", 100) * blocks,
            raw_lengths=struct.pack("<I", 7 * (chunks - (3 if dead else 0))) * blocks,
            chunk_counts=struct.pack("<H", chunks) * blocks,
            flags=(b"\1" if dead else b"\2") * blocks,
            chunk_ids=bytes(24) * count,
            chunk_lengths=struct.pack("<I", 7) * count,
            dead=dead,
        )
        size = (100 * blocks).to_bytes(2, "little")
        seeds.append(b"\1" + size + encode_head(columns) + encode_tail(columns))
    return seeds


if __name__ == "__main__":
    run(check_pack, seed_packs)
