"""Ids of packs are found by all of their bytes, however many are sought."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.block_making import chunk_ids_of, make_pack
from kit.kept import loaded_index
from kit.passing_store import PassingStore
from strongroom.base.errors import StoreError
from strongroom.engine.repository.index.chunk_table import ChunkTable
from strongroom.engine.repository.index.kept_loading import SIZE_UNASKED
from strongroom.engine.repository.index.pack_ids import PackIds

BLOCKS = [[b"one", b"two"], [b"three"]]
CHUNKS = [b"one", b"two", b"three"]

# Many that are equal, or differ in zeros at the end only.
ids = st.builds(
    lambda start, end: start.ljust(31, b"\0") + end,
    st.binary(max_size=2),
    st.sampled_from([b"\0", b"\1", b"\xff"]),
)


@given(st.lists(ids), st.lists(ids))
def test_an_id_has_the_number_it_was_first_given(known, sought):
    numbers = list(range(len(known)))
    table = PackIds(b"".join(known), np.array(numbers, np.int64))
    first = dict(reversed(list(zip(known, numbers, strict=True))))
    expected = [first.get(one, -1) for one in sought]
    assert table.find(b"".join(sought)).tolist() == expected
    assert table.find(np.frombuffer(b"".join(sought), "V32")).tolist() == expected
    assert table.chosen(np.ones(len(known), np.bool_)) == sorted(known)


def test_more_are_sought_than_at_once():
    known = np.arange(4 * 400_000, dtype=">u8").reshape(-1, 4)
    table = PackIds(known[::2].tobytes(), np.arange(200_000))
    found = table.find(known[::-1].tobytes())[::-1]
    assert found[::2].tolist() == list(range(200_000))
    assert (found[1::2] == -1).all()


def nothing(number):
    pass


def named(repository, before=nothing):
    """The index of the client, which knows packs by their names alone; and its store."""
    pack_ids = repository.store.pack_ids()
    repository.store = PassingStore(repository.store, before)
    index = loaded_index(repository)
    index.require_present(PackIds(pack_ids, SIZE_UNASKED))
    index.load_chunks()
    return index, ChunkTable(index)


def path_of(repository, footer):
    name = footer.pack_id.hex()
    return f"{repository.store.location}/packs/{name[:2]}/{name}"


@pytest.mark.parametrize("seek_blocks_first", [True, False])
def test_a_pack_that_is_named_is_referred_to_when_it_has_its_size(repository, seek_blocks_first):
    whole, cut_off = make_pack(repository, BLOCKS), make_pack(repository, BLOCKS)
    gone = make_pack(repository, BLOCKS)
    repository.write_index([cut_off, gone, whole])
    wanted, blocks = chunk_ids_of(repository, CHUNKS), whole.columns.block_ids
    index, table = named(repository)
    # After they were named.
    with open(path_of(repository, cut_off), "ab") as file:
        file.truncate(cut_off.size_bytes - 1)
    repository.store.delete("packs", gone.pack_id.hex())
    if seek_blocks_first:
        assert index.has_blocks(blocks).all()
    assert len(table.claim(wanted)) == 3
    repository.store.delete("packs", whole.pack_id.hex())
    index, table = named(repository)
    if seek_blocks_first:
        assert not index.has_blocks(blocks).any()
    assert table.claim(wanted) == {}
    assert not index.has_blocks(blocks).any()


def test_each_size_is_asked_once_and_again_after_an_error(repository):
    footer = make_pack(repository, BLOCKS)
    repository.write_index([footer])
    fails = []

    def before(number):
        if fails:
            raise StoreError("the disk reports an error")

    _, table = named(repository, before)
    wanted = chunk_ids_of(repository, CHUNKS)
    fails.append(True)
    for _ in range(2):
        with pytest.raises(StoreError):
            table.claim(wanted)
    fails.clear()
    count = repository.store.count
    for _ in range(2):
        assert len(table.claim(wanted)) == 3
        assert repository.store.count == count + 1
