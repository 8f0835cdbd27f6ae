"""The table of ids answers as a dictionary would."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strongroom.engine.repository.index import id_table
from strongroom.engine.repository.index.id_table import IdTable

# Ids of few different words, so that many share the first word, which in earnest none do.
few_ids = st.builds(
    lambda a, b, c: b"".join(n.to_bytes(8, "little") for n in (a << 61, b, c)),
    st.integers(0, 7),
    st.integers(0, 2),
    st.integers(0, 2),
)
batches = st.lists(st.lists(few_ids, min_size=1, max_size=40, unique=True), max_size=12)


@pytest.fixture(params=[16, 64, 100_000])
def small_runs(monkeypatch, request):
    monkeypatch.setattr(id_table, "RECENT_LIMIT", 16)
    monkeypatch.setattr(id_table, "FIRST_LIMIT", request.param)


@given(batches=batches, wanted=st.lists(few_ids, max_size=30))
@settings(deadline=None)
@pytest.mark.usefixtures("small_runs")
def test_what_was_added_is_found_and_nothing_else(batches, wanted):
    table = IdTable(24)
    model = {}
    for turn, batch in enumerate(batches):
        values = range(turn * 100, turn * 100 + len(batch))
        if turn % 3 == 2:
            table.add_many(b"".join(batch), np.array(values, np.int64))
        else:
            table.add(b"".join(batch), values)
        # What was added last counts.
        model.update(zip(batch, values, strict=True))
    expected = [model.get(an_id, -1) for an_id in wanted]
    assert table.find(b"".join(wanted)).tolist() == expected
    assert [table.find_one(an_id) for an_id in wanted] == expected


def test_of_equal_ids_added_at_once_the_first_is_found():
    table = IdTable(16)
    table.add_many(bytes(16) * 40 + b"\1" * 16, np.arange(41))
    assert table.find(b"\1" * 16 + bytes(16)).tolist() == [40, 0]


def test_of_many_equal_ids_among_others_the_first_is_found():
    """Sorted by instructions that do not keep equal ids in order, were it not for these."""
    random = np.random.default_rng(4)
    count = id_table.FIRST_LIMIT
    which = random.integers(0, count // 2, count)
    ids = [random.bytes(24) for _ in range(count // 2)]
    table = IdTable(24)
    table.add_many(b"".join([ids[place] for place in which.tolist()]), np.arange(count))
    distinct, firsts = np.unique(which, return_index=True)
    assert len(distinct) < count // 2
    wanted = b"".join([ids[place] for place in distinct.tolist()])
    assert table.find(wanted).tolist() == firsts.tolist()


@pytest.mark.parametrize("size", [16, 24, 32])
def test_more_ids_than_the_dictionary_takes_in_many_batches(size):
    random = np.random.default_rng(1)
    count = id_table.FIRST_LIMIT + 2 * id_table.RECENT_LIMIT + 100
    ids = random.bytes(count * size)
    table = IdTable(size)
    for start in range(0, count, 512):
        part = ids[start * size : (start + 512) * size]
        table.add(part, range(start, start + len(part) // size))
    assert len(table) == count
    assert table.find(ids).tolist() == list(range(count))
    assert (table.find(random.bytes(5000 * size)) == -1).all()


@given(batches=batches)
@settings(deadline=None)
@pytest.mark.usefixtures("small_runs")
def test_what_is_added_if_new_was_not_there_and_is_then(batches):
    table = IdTable(24)
    known = set()
    for turn, batch in enumerate(batches):
        values = range(turn * 100, turn * 100 + len(batch))
        was_new = table.add_if_new(b"".join(batch), values)
        assert not (was_new and known & set(batch))
        if was_new:
            known |= set(batch)
            assert table.find(b"".join(batch)).tolist() == list(values)
        assert len(table) == len(known)


def test_a_small_table_adds_what_is_new():
    table = IdTable(16)
    assert table.add_if_new(bytes(16) + b"\1" * 16, [0, 1])
    assert not table.add_if_new(b"\1" * 16 + b"\2" * 16, [2, 3])
    assert table.find(b"\1" * 16 + b"\2" * 16).tolist() == [1, -1]


def test_an_empty_table_finds_nothing():
    table = IdTable(16)
    assert table.find(bytes(32)).tolist() == [-1, -1]
    assert table.find(b"").tolist() == []
    table.add_many(b"", np.zeros(0, np.int64))
    assert len(table) == 0


@pytest.mark.parametrize("count", [3, 400])
def test_what_was_added_last_counts(count):
    random = np.random.default_rng(2)
    ids = random.bytes((id_table.FIRST_LIMIT + 1000) * 24)
    table = IdTable(24)
    table.add_many(ids, np.arange(len(ids) // 24))
    table.add(ids[: 24 * count], range(10**9, 10**9 + count))
    expected = [*range(10**9, 10**9 + count), count, count + 1]
    assert table.find(ids[: 24 * (count + 2)]).tolist() == expected
    assert [table.find_one(ids[24 * row :][:24]) for row in range(count + 2)] == expected


def test_a_large_table_adds_what_is_new_and_refuses_what_it_has():
    random = np.random.default_rng(3)
    count, size = id_table.FIRST_LIMIT + 3 * id_table.RECENT_LIMIT, 24
    ids = random.bytes(count * size)
    table = IdTable(size)
    for start in range(0, count, 64):
        part = ids[start * size : (start + 64) * size]
        # Many thousand of these are asked of a table that has more than its dictionary.
        assert table.add_if_new(part, range(start, start + 64))
    assert len(table) == count
    for old in (0, id_table.FIRST_LIMIT, count - 1):
        batch = random.bytes(63 * size) + ids[old * size : (old + 1) * size]
        assert not table.add_if_new(batch, range(64))
        assert table.find(batch).tolist() == [-1] * 63 + [old]
    assert len(table) == count


@pytest.mark.parametrize("bits", [(40, 0, 0), (0, 40, 0), (0, 0, 40), (6, 6, 6)])
def test_ids_that_were_chosen_to_be_alike_are_not_alike_in_the_table(bits):
    # Each search would step through all of them. Only the uppermost bits of each word differ.
    count = id_table.FIRST_LIMIT + 10
    words = np.full((count, 3), 7, np.uint64)
    left = np.arange(count, dtype=np.uint64)
    for word, width in enumerate(bits):
        if width:
            words[:, word] |= left << np.uint64(64 - width)
            left >>= np.uint64(width)
    ids = words.tobytes()
    table = IdTable(24)
    table.add(ids, range(count))
    assert table.find(ids).tolist() == list(range(count))
    assert table.find_one(ids[-24:]) == count - 1
    others = words[:1000] + np.uint64(count)
    assert (table.find(others.tobytes()) == -1).all()
    runs = table._runs  # noqa: SLF001 - what it takes does not show in the answers
    assert [len(np.unique(run.keys)) for run in runs] == [count]
