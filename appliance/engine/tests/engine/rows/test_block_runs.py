"""Where block ids change, and which there are."""

from itertools import groupby

from hypothesis import given
from hypothesis import strategies as st

from strongroom.engine.rows.block_runs import block_runs, distinct_blocks
from strongroom.engine.rows.rows import BLOCK_ID_BYTES

# Ids that differ in one of three words only.
few_ids = st.builds(
    lambda place: bytes(place) + b"\1" + bytes(BLOCK_ID_BYTES - 1 - place),
    st.integers(0, BLOCK_ID_BYTES - 1),
)


@given(st.lists(few_ids, max_size=60))
def test_runs_begin_where_the_id_is_not_the_one_before(ids):
    lengths = [len(list(run)) for _, run in groupby(ids)]
    expected = [sum(lengths[:place]) for place in range(len(lengths))]
    assert block_runs(b"".join(ids)).tolist() == expected
    assert distinct_blocks(b"".join(ids)) == set(ids)
