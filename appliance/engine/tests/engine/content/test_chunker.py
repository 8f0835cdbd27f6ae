"""Cut points are part of the format: these numbers never change."""

import pytest
from blake3 import blake3
from hypothesis import given, settings
from hypothesis import strategies as st

from strongroom.engine.content.chunker import GREATEST_SIZE, LEAST_SIZE, Chunker

SEED = bytes(range(32))
NOISE = blake3(b"golden cut points").digest(24 << 20)
TEXT = b"".join(b"line %d of a text\n" % number for number in range(400_000))

GOLDEN_NOISE = [
    262310, 619965, 3006559, 338508, 1421594, 1695367, 1313433, 1498570, 1923689, 1723624,
    1058972, 1135139, 1852563, 1130631, 885660, 1833244, 2789009, 676987,
]  # fmt: skip
GOLDEN_NOISE_WITHOUT_SEED = [
    957621, 413931, 753852, 1279616, 1305144, 1298354, 285132, 1164092, 1264740, 1042877, 1359791,
    1463396, 1179222, 486542, 469542, 878760, 2845132, 1124149, 825520, 2254505, 917536, 365641,
    1230729,
]  # fmt: skip
GOLDEN_TEXT = [
    1084556, 1247350, 1563041, 1184979, 271436, 709654, 1184270, 1060803, 382801,
]  # fmt: skip


def cut_whole(data, seed=SEED):
    return Chunker(seed).cut(memoryview(data), final=True)


def test_golden_cut_points():
    assert cut_whole(NOISE) == GOLDEN_NOISE
    assert cut_whole(NOISE, bytes(32)) == GOLDEN_NOISE_WITHOUT_SEED
    assert cut_whole(TEXT) == GOLDEN_TEXT
    assert cut_whole(bytes(20 << 20)) == [8 << 20, 8 << 20, 4 << 20]


def test_every_seed_is_accepted():
    assert sum(cut_whole(NOISE[: 1 << 20], b"\xff" * 32)) == 1 << 20


def test_chunks_are_within_their_bounds_and_add_up():
    lengths = cut_whole(NOISE)
    assert sum(lengths) == len(NOISE)
    assert all(LEAST_SIZE <= length <= GREATEST_SIZE for length in lengths[:-1])


@pytest.mark.parametrize("size", [0, 1, LEAST_SIZE - 1, LEAST_SIZE])
def test_what_is_short_is_one_chunk(size):
    assert cut_whole(NOISE[:size]) == ([size] if size else [])
    assert Chunker(SEED).cut(memoryview(NOISE)[:size], final=False) == []


def test_a_full_buffer_always_yields_a_chunk():
    assert Chunker(SEED).cut(memoryview(bytes(GREATEST_SIZE)), final=False) == [GREATEST_SIZE]


@given(st.lists(st.integers(1, 3 << 20), min_size=1, max_size=8))
@settings(max_examples=25, deadline=None)
def test_reading_in_pieces_cuts_at_the_same_places(reads):
    chunker = Chunker(SEED)
    data = memoryview(NOISE)
    lengths = []
    start = end = turn = 0
    while start < len(data):
        end = min(len(data), max(end + reads[turn % len(reads)], start + GREATEST_SIZE))
        turn += 1
        cut = chunker.cut(data[start:end], final=end == len(data))
        lengths += cut
        start += sum(cut)
    assert lengths == GOLDEN_NOISE


def test_an_insertion_moves_only_the_cuts_around_it():
    changed = NOISE[: 10 << 20] + b"inserted" + NOISE[10 << 20 :]
    before, after = cut_whole(NOISE), cut_whole(changed)
    assert len(set(before) - set(after)) <= 2
