"""Columns of numbers and of texts come back as they were."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strongroom.base.errors import DamageError
from strongroom.engine.repository.listing.columns import (
    CONSTANT,
    CONSTANT_LIMIT,
    DELTA,
    PLAIN,
    TABLE,
    SectionReader,
    SectionWriter,
    add_texts,
    decode_integers,
    encode_integers,
    take_texts,
)

INT64 = st.integers(-(2**63), 2**63 - 1)
COLUMNS = st.one_of(
    st.lists(INT64, max_size=50),
    st.lists(st.integers(0, 3), max_size=300),
    st.tuples(INT64, st.integers(1, 300)).map(lambda pair: [pair[0]] * pair[1]),
    st.lists(st.integers(-3, 3), max_size=50).map(lambda steps: np.cumsum(steps).tolist()),
    st.lists(st.sampled_from([-(2**63), 2**63 - 1, 0]), max_size=300),
)
TEXT_LETTERS = st.integers(1, 255).map(lambda letter: bytes((letter,)))
TEXTS = st.lists(
    st.one_of(
        st.lists(TEXT_LETTERS, max_size=20).map(b"".join),
        st.integers(0, 20).map(lambda n: b"abcdefgh" * n),
        st.integers(250, 520).map(lambda n: b"long" * (n // 4)),
    ),
    min_size=1,
    max_size=30,
)


@given(COLUMNS, st.booleans())
def test_a_column_of_numbers_comes_back(values, table):
    encoded = encode_integers(np.asarray(values, np.int64), table=table)
    assert decode_integers(encoded, len(values)).tolist() == values


@given(COLUMNS, st.integers(0, 400))
def test_a_column_of_another_length_is_damage(values, count):
    encoded = encode_integers(np.asarray(values, np.int64), table=True)
    is_constant = encoded[:1] == bytes((CONSTANT,)) and count
    if count == len(values) or is_constant:
        assert len(decode_integers(encoded, count)) == count
    else:
        with pytest.raises(DamageError):
            decode_integers(encoded, count)


@pytest.mark.parametrize(
    ("values", "form"),
    [
        ([5] * 1000, CONSTANT),
        (list(range(1000)), DELTA),
        ([0, 255] * 500, PLAIN),
        ([1_700_000_000, 5, 99_999_999_999] * 300, TABLE),
    ],
)
def test_the_cheapest_form_is_chosen(values, form):
    assert encode_integers(np.asarray(values, np.int64), table=True)[0] == form


def test_long_columns_are_stored_whole_so_that_counts_cannot_be_forged():
    long = np.zeros(CONSTANT_LIMIT + 1, np.int64)
    assert len(encode_integers(long)) > CONSTANT_LIMIT
    assert decode_integers(encode_integers(long), len(long)).tolist() == long.tolist()
    short = encode_integers(np.zeros(9, np.int64))
    with pytest.raises(DamageError):
        decode_integers(short, CONSTANT_LIMIT + 1)


@given(TEXTS, st.sets(st.integers(0, 29)))
def test_texts_come_back(texts, group_starts):
    starts = np.array(sorted({0, *(start for start in group_starts if start < len(texts))}))
    writer = SectionWriter()
    add_texts(writer, b"\0".join(texts), len(texts), starts)
    reader = SectionReader(writer.joined(), 0)
    assert take_texts(reader, len(texts), starts) == texts
    reader.end()


def test_shared_beginnings_are_not_stored_twice():
    texts = [b"a-rather-long-name-%06d" % number for number in range(1000)]
    writer = SectionWriter()
    add_texts(writer, b"\0".join(texts), len(texts), np.zeros(1, np.int64))
    assert len(writer.joined()) < 4 * len(texts)
