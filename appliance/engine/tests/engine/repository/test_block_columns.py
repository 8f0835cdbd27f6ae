"""The flags of dropped chunks are those of each block's bitmap."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from strongroom.engine.content.digests import BLOCK_ID_SIZE
from strongroom.engine.repository.block_columns import (
    BlockColumns,
    dead_flags,
    decode_head,
    decode_tail,
    encode_head,
    encode_tail,
)


@st.composite
def blocks(draw):
    """For each block the lengths of its chunks which were dropped, and whether that counts."""
    chunks = st.lists(st.tuples(st.integers(1, 1000), st.booleans()), min_size=1, max_size=20)
    return draw(st.lists(st.tuples(chunks, st.booleans()), max_size=12))


@given(blocks())
def test_the_flags_of_dropped_chunks_are_those_of_each_bitmap(some):
    expected = [thinned and dead for chunks, thinned in some for _, dead in chunks]
    columns = BlockColumns(
        block_ids=bytes(BLOCK_ID_SIZE * len(some)),
        codecs=bytes(len(some)),
        stored_lengths=np.full(len(some), 100, "<u4").tobytes(),
        raw_lengths=np.array(
            [sum(n for n, dead in chunks if not (thinned and dead)) for chunks, thinned in some],
            "<u4",
        ).tobytes(),
        chunk_counts=np.array([len(chunks) for chunks, _ in some], "<u2").tobytes(),
        flags=bytes(thinned for _, thinned in some),
        chunk_ids=bytes(24 * len(expected)),
        chunk_lengths=np.array([n for chunks, _ in some for n, _ in chunks], "<u4").tobytes(),
        dead=b"".join(
            np.packbits([dead for _, dead in chunks], bitorder="little").tobytes()
            for chunks, thinned in some
            if thinned
        ),
    )
    assert dead_flags(columns).tolist() == expected
    head = decode_head(memoryview(encode_head(columns)))
    assert decode_tail(head, memoryview(encode_tail(columns))) == columns
