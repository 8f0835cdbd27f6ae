"""Coverage-guided fuzzing of the pack decoder: header, trailer and sealed footer.

    python fuzz/fuzz_pack.py --seeds DIRECTORY            write a seed corpus
    python fuzz/fuzz_pack.py DIRECTORY [libFuzzer options]

The input is the raw pack, or, behind a first byte of 1, the text of a footer that is then sealed
into a pack with blocks of the size it claims. Reading gives a footer or a StrongroomError.
"""

from __future__ import annotations

import struct

import atheris
from sealed_objects import KEY, OneObject, run

with atheris.instrument_imports(include=["strongroom"]):
    from strongroom.content.ciphers import NONE, seal_object
    from strongroom.errors import StrongroomError
    from strongroom.repo.block_columns import BlockColumns, encode_head, encode_tail
    from strongroom.repo.packs import read_footer

HEADER = struct.pack("<4sBBBx32s", b"SRPK", 1, NONE, 0, bytes(32))


def check_pack(data: bytes) -> None:
    if data[:1] == b"\1":
        size = int.from_bytes(data[1:3], "little")
        label = b"strongroom footer 1" + HEADER
        footer = seal_object(KEY.put_key.index_key, label, data[3:], NONE)
        stored = HEADER + bytes(size) + footer + struct.pack("<I4s", len(footer), b"SRPF")
    else:
        stored = data
    try:
        footer = read_footer(OneObject(stored), KEY, bytes(32))
    except StrongroomError:
        return
    offset = len(HEADER)
    for block in footer.blocks:
        assert block.offset == offset
        assert len(block.chunk_ids) == 24 * len(block.chunk_lengths)
        offset += block.stored_length


def seed_packs() -> list[bytes]:
    """Raw packs, and footers to seal."""
    seeds = [HEADER + bytes(64), b""]
    for blocks, chunks, dead in ((1, 1, b""), (3, 20, b""), (1, 9, b"\3\1")):
        count = blocks * chunks
        columns = BlockColumns(
            block_ids=bytes(range(24)) * blocks,
            codecs=b"\1" * blocks,
            stored_lengths=struct.pack("<I", 100) * blocks,
            raw_lengths=struct.pack("<I", 7 * (chunks - (3 if dead else 0))) * blocks,
            chunk_counts=struct.pack("<H", chunks) * blocks,
            thinned=(b"\1" if dead else b"\0") * blocks,
            chunk_ids=bytes(24) * count,
            chunk_lengths=struct.pack("<I", 7) * count,
            dead=dead,
        )
        size = (100 * blocks).to_bytes(2, "little")
        seeds.append(b"\1" + size + encode_head(columns) + encode_tail(columns))
    return seeds


if __name__ == "__main__":
    run(check_pack, seed_packs)
