"""A block id of one owner is found for that owner only, however many there are."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from strongroom.engine.content.digests import BLOCK_ID_SIZE
from strongroom.engine.repository.index import id_table
from strongroom.engine.repository.index.id_table import OwnedIds

# Few different ids and owners, so that they meet.
ids = st.builds(lambda number: bytes([number]) * BLOCK_ID_SIZE, st.integers(0, 5))
owners = st.integers(0, 3)
pairs = st.lists(st.tuples(ids, owners), max_size=12)
# Each of one owner, and no id twice.
recent = st.lists(st.tuples(owners, st.lists(ids, unique=True, min_size=1, max_size=4)), max_size=6)


@given(pairs, recent)
def test_what_was_added_is_found_for_its_owner(first, later):
    table = OwnedIds()
    table.add(
        b"".join(one for one, _ in first),
        np.array([owner for _, owner in first], np.int64),
        np.arange(len(first)),
    )
    expected: dict[tuple[bytes, int], int] = {}
    for number, pair in enumerate(first):
        expected.setdefault(pair, number)
    value = len(first)
    for owner, some in later:
        # They count before what was there.
        table.add_recent(b"".join(some), owner, range(value, value + len(some)))
        expected.update(((one, owner), value + place) for place, one in enumerate(some))
        value += len(some)
    every = [bytes([number]) * BLOCK_ID_SIZE for number in range(6)]
    for owner in range(4):
        wanted = [expected.get((one, owner), -1) for one in every]
        assert table.find(b"".join(every), owner).tolist() == wanted
        assert [table.find_one(one, owner) for one in every] == wanted
        all_of_one = np.full(len(every), owner)
        assert table.find_of(b"".join(every), all_of_one).tolist() == wanted


def test_more_than_the_recent_ones_are_found_too():
    table = OwnedIds()
    count = id_table.FIRST_LIMIT + 10
    joined = np.arange(count * 3, dtype=np.uint64).tobytes()
    table.add_recent(joined, 1, range(count))
    assert table.find(joined, 1).tolist() == list(range(count))
    assert (table.find(joined, 2) == -1).all()
