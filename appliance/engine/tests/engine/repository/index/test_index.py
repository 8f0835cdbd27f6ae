"""What an index says of blocks and chunks is what the packs hold."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.block_making import block_id_of, chunk_ids_of, make_pack, make_thinned_pack
from kit.kept import known_chunks, loaded_index, loaded_table
from kit.passing_store import PassingStore
from kit.tiny_backup import new_repository
from strongroom.base.errors import DamageError, KeyRightError, UnknownFormatError
from strongroom.engine.content.digests import BLOCK_ID_SIZE
from strongroom.engine.repository.index.index import Index
from strongroom.engine.repository.index.objects import (
    join_columns,
    read_index_object,
    split_columns,
    write_index_object,
)
from strongroom.engine.repository.index.pack_ids import PackIds
from strongroom.engine.repository.keys.roles import new_restore_key
from strongroom.engine.repository.packs import KIND_LISTING
from strongroom.engine.repository.tombstones import read_tombstone, read_tombstones, write_tombstone
from strongroom.engine.stores.local import LocalStore

ONE = [[b"one", b"two"], [b"three"]]
TWO = [[b"four"], [b"five", b"six", b"seven"]]


def mine(repository, index):
    """The blocks as the repository's client sees them."""
    return index.of_client(repository.writer.client_id)


def written(repository, footers, superseded=()):
    """Store an index object of the client; its name."""
    key, owner = repository.writer, repository.writer.client_id
    return write_index_object(repository.store, key, owner, footers, superseded, repository.cipher)


def mark(repository, pack_ids):
    """A tombstone of packs of the client; its name."""
    owner = repository.writer.client_id
    return write_tombstone(repository.store, repository.key, owner, pack_ids, repository.cipher)


def ids_of(repository, blocks):
    return b"".join(block_id_of(repository, chunks) for chunks in blocks)


@pytest.mark.parametrize("chunks", [False, True])
def test_every_block_is_located_where_its_pack_has_it(repository, chunks):
    footers = [make_pack(repository, ONE), make_pack(repository, TWO)]
    repository.write_index(footers)
    index = repository.load_index(chunks=chunks)
    blocks = mine(repository, index)
    assert len(index) == 4
    for footer in footers:
        for entry in footer.blocks:
            location = blocks.locate(entry.block_id)
            assert location.pack_id == footer.pack_id
            assert location[1:] == (
                entry.number,
                entry.offset,
                entry.stored_length,
                entry.raw_length,
                entry.codec,
                0,
                len(entry.chunk_lengths),
                footer.size_bytes,
            )
            assert entry.block_id in blocks


def test_a_block_that_is_nowhere_says_so(repository):
    repository.write_index([make_pack(repository, ONE)])
    blocks = mine(repository, repository.load_index())
    assert bytes(BLOCK_ID_SIZE) not in blocks
    with pytest.raises(DamageError, match="repair"):
        blocks.locate(bytes(BLOCK_ID_SIZE))


def test_a_pack_added_is_known_at_once_and_once(repository):
    index = Index()
    footer = make_pack(repository, ONE)
    index.add(footer)
    index.add(footer)
    assert len(index) == 2
    assert mine(repository, index).has_blocks(ids_of(repository, ONE + TWO)).tolist() == [
        True,
        True,
        False,
        False,
    ]


def test_a_pack_in_two_index_objects_counts_once(repository):
    one, two = make_pack(repository, ONE), make_pack(repository, TWO)
    repository.write_index([one])
    repository.write_index([two, one])
    index = repository.load_index(chunks=True)
    assert sorted(pack.pack_id for pack in index.packs()) == sorted([one.pack_id, two.pack_id])
    assert len(known_chunks(repository)) == 7


def test_a_superseded_object_counts_no_more(repository):
    old = written(repository, [make_pack(repository, ONE)])
    two = make_pack(repository, TWO)
    new = written(repository, [two], [old])
    index = repository.load_index()
    assert [pack.pack_id for pack in index.packs()] == [two.pack_id]
    assert index.object_names == (new,)
    assert index.superseded_names == (old,)


def test_an_object_that_is_replaced_while_the_index_loads_does_no_harm(repository):
    one, two = make_pack(repository, ONE), make_pack(repository, TWO)
    old = written(repository, [one])
    replaced = []

    def replace(number):
        # The third operation is the first read of an index object, after both listings.
        if number == 3 and not replaced:
            replaced.append(written(repository, [one, two], [old]))
            repository.store.delete("index", old)

    index = Index.load(PassingStore(repository.store, replace), repository.key)
    assert replaced
    assert len(index) == 4


def test_each_client_sees_its_own_blocks_and_shared_ones(repository):
    other = repository.for_client("other")
    own, theirs = make_pack(repository, ONE), make_pack(other, ONE)
    shared = make_pack(repository, TWO, shared=True)
    repository.write_index([own, theirs, shared])
    assert len(list(repository.store.list("index"))) == 3
    footers = [own, theirs, shared]
    whole = repository.for_all_clients().load_index()
    assert {pack.pack_id for pack in whole.packs()} == {footer.pack_id for footer in footers}
    for client, expected in ((repository, [True, False, True]), (other, [False, True, True])):
        for index in (whole, client.load_index(), Index.load(repository.store, client.writer)):
            blocks = mine(client, index)
            for footer, is_seen in zip(footers, expected, strict=True):
                ids = footer.columns.block_ids
                assert blocks.has_blocks(ids).tolist() == [is_seen] * 2
                assert (blocks.rows_of(ids) >= 0).tolist() == [is_seen] * 2
                assert (ids[:BLOCK_ID_SIZE] in blocks) == is_seen
                assert bool(blocks.copies(ids[:BLOCK_ID_SIZE])) == is_seen
        assert {pack.pack_id for pack in client.load_index().packs()} == {
            footer.pack_id for footer, is_seen in zip(footers, expected, strict=True) if is_seen
        }


def test_a_shared_copy_stands_before_the_clients_own_and_both_are_found(repository):
    own, shared = (
        make_pack(repository, TWO, offered=True),
        make_pack(repository, TWO, shared=True),
    )
    repository.write_index([own, shared])
    index = repository.load_index()
    blocks = mine(repository, index)
    for number, block in enumerate(own.blocks):
        assert shared.blocks[number].block_id == block.block_id
        assert blocks.locate(block.block_id).pack_id == shared.pack_id
        copies = {location.pack_id for location in blocks.copies(block.block_id)}
        assert copies == {own.pack_id, shared.pack_id}
    ids = own.columns.block_ids
    assert blocks.is_shared(blocks.rows_of(ids)).all()
    assert {pack.pack_id for pack in blocks.packs_holding(ids)} == copies
    # One of them that is missing leaves the other.
    for there, is_any in (([own], True), ([shared], True), ([], False)):
        kept = loaded_index(repository)
        sizes = np.array([pack.size_bytes for pack in there], np.int64)
        kept.require_present(PackIds(b"".join(pack.pack_id for pack in there), sizes))
        assert kept.has_blocks(ids).tolist() == [is_any] * len(own.blocks)


def test_chunks_are_found_by_id(repository):
    repository.write_index([make_pack(repository, ONE)])
    table = loaded_table(repository)
    wanted = chunk_ids_of(repository, [b"two", b"nowhere", b"one", b"three"])
    one, three = (block_id_of(repository, chunks) for chunks in ONE)
    assert table.claim(wanted) == {0: (one, 1), 2: (one, 0), 3: (three, 0)}
    four = block_id_of(repository, [b"four"])
    table.add(four, chunk_ids_of(repository, [b"four"]))
    assert table.claim(chunk_ids_of(repository, [b"four"])) == {0: (four, 0)}
    assert table.claim(b"") == {}


def test_listing_pages_and_marked_packs_are_not_deduplicated_against(repository):
    footers = [make_pack(repository, ONE), make_pack(repository, TWO, KIND_LISTING)]
    repository.write_index(footers)
    assert len(known_chunks(repository)) == 3
    mark(repository, [footers[0].pack_id])
    index = repository.load_index(chunks=True)
    assert len(known_chunks(repository)) == 0
    assert mine(repository, index).has_blocks(ids_of(repository, ONE + TWO)).tolist() == [
        False,
        False,
        True,
        True,
    ]
    assert (
        mine(repository, index).locate(ids_of(repository, ONE)[:BLOCK_ID_SIZE]).pack_id
        == footers[0].pack_id
    )


def test_of_two_copies_the_one_that_stays_is_found(repository):
    old, new = make_pack(repository, ONE), make_pack(repository, ONE)
    for order in ([old, new], [new, old]):
        repository.write_index(order)
    mark(repository, [old.pack_id])
    index = repository.load_index()
    assert (
        mine(repository, index).locate(ids_of(repository, ONE)[:BLOCK_ID_SIZE]).pack_id
        == new.pack_id
    )
    assert mine(repository, index).has_blocks(ids_of(repository, ONE)).all()


def test_dropped_chunks_are_not_deduplicated_against(repository):
    chunks = [b"kept", b"lost", b"kept too"]
    repository.write_index(
        [make_pack(repository, ONE), make_thinned_pack(repository, chunks, [True, False, True])]
    )
    table = loaded_table(repository)
    block = block_id_of(repository, chunks)
    assert table.claim(chunk_ids_of(repository, chunks)) == {0: (block, 0), 2: (block, 2)}


def test_tombstones_read_back(repository):
    packs = [bytes([number]) * 32 for number in range(3)]
    name = mark(repository, packs)
    (tombstone,) = read_tombstones(repository.store, repository.writer)
    assert (tombstone.name, list(tombstone.pack_ids)) == (name, packs)
    data = repository.store.get("tombstones", name)
    for forged in (data[:-1], b"XXXX" + data[4:], data[:20], b""):
        repository.store.delete("tombstones", name)
        repository.store.put("tombstones", name, forged)
        with pytest.raises(DamageError):
            read_tombstones(repository.store, repository.key)


def first_end(data):
    """Where the first part of an index object ends."""
    return 28 + int.from_bytes(data[24:28], "little")


def test_a_tombstone_is_the_appliances_and_of_one_client(repository):
    name = mark(repository, [bytes(32)])
    assert [one.name for one in read_tombstones(repository.store, repository.writer)] == [name]
    # Another client passes over it.
    web1 = repository.key.put_key("web1")
    assert read_tombstones(repository.store, web1) == []
    owner = repository.writer.client_id
    with pytest.raises(KeyRightError):
        write_tombstone(repository.store, repository.writer, owner, [bytes(32)], repository.cipher)
    data = repository.store.get("tombstones", name)
    stranger = new_restore_key().sign(b"strongroom tombstone 1" + data[:-64])
    for forged in (data[:-64], data[:-64] + bytes(64), data[:-64] + stranger):
        repository.store.delete("tombstones", name)
        repository.store.put("tombstones", name, forged)
        for key in (web1, repository.writer, repository.key):
            with pytest.raises(DamageError):
                read_tombstone(repository.store, key, name)


def replant(repository, name, data):
    repository.store.delete("index", name)
    repository.store.put("index", name, data)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("chunks", [False, True])
def test_a_changed_or_cut_index_object_is_found(repository, chunks, shared):
    footer = make_pack(repository, ONE, shared=shared)
    store, key, cipher = repository.store, repository.key, repository.cipher
    name = write_index_object(store, key, footer.owner, [footer], [], cipher)
    data = repository.store.get("index", name)
    end = len(data) if chunks else first_end(data) + (64 if shared else 0)
    # A client passes over what seems to be another's.
    repository = repository.for_all_clients()
    for at in (*range(5), *range(8, end, 5), end - 1):
        replant(repository, name, data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with pytest.raises((DamageError, UnknownFormatError)):
            repository.load_index(chunks=chunks)
    for size in range(0, end, 13):
        replant(repository, name, data[:size])
        with pytest.raises(DamageError):
            repository.load_index(chunks=chunks)


def test_the_second_part_of_another_object_is_found(repository):
    names = [written(repository, [make_pack(repository, ONE)]) for _ in range(2)]
    one, two = (repository.store.get("index", name) for name in names)
    replant(repository, names[0], one[: first_end(one)] + two[first_end(two) :])
    assert len(repository.load_index()) == 4
    with pytest.raises(DamageError):
        repository.load_index(chunks=True)


def test_a_newer_version_is_not_taken_for_damage(repository):
    name = written(repository, [make_pack(repository, ONE)])
    data = repository.store.get("index", name)
    replant(repository, name, data[:4] + b"\2" + data[5:])
    with pytest.raises(UnknownFormatError):
        repository.load_index()


block_lists = st.lists(
    st.lists(st.lists(st.binary(max_size=9), min_size=1, max_size=9), max_size=4),
    min_size=1,
    max_size=4,
)


@given(block_lists)
@settings(max_examples=20, deadline=None)
def test_an_index_object_says_what_the_footers_said(tmp_path_factory, packs):
    repository = new_repository(LocalStore(tmp_path_factory.mktemp("index")))
    footers = [make_pack(repository, blocks) for blocks in packs]
    superseded = ["ab" * 32, "cd" * 32][: len(packs) % 3]
    name = written(repository, footers, superseded)
    read = read_index_object(repository.store, repository.key, name, chunks=True)
    assert read.footers == tuple(footers)
    assert read.superseded == tuple(superseded)
    parts = [footer.columns for footer in footers]
    assert split_columns(join_columns(parts), [part.block_count for part in parts]) == parts
