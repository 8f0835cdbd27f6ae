"""What shared packs have is found by chunk id, and only for what was offered."""

import numpy as np
import pytest

from kit.block_making import block_id_of, chunk_ids_of, make_pack, make_thinned_pack
from kit.memory_store import MemoryStore
from kit.tiny_backup import new_repository
from strongroom.base.errors import DamageError
from strongroom.engine.content.digests import CHUNK_ID_SIZE
from strongroom.engine.repository.index.live_blocks import LiveBlocks
from strongroom.engine.repository.index.shared_chunks import SharedChunks
from strongroom.engine.repository.keys.owners import SHARED

CHUNKS = [b"one", b"two", b"three", b"four"]


@pytest.fixture
def repository():
    made = new_repository(MemoryStore())
    yield made
    made.close()


def load(repository, **options):
    whole = repository.for_all_clients()
    return SharedChunks.load(whole.store, whole.key, whole.load_index(), **options)


def test_offered_chunks_of_clients_are_covered_and_no_others(repository):
    shared = make_pack(repository, [CHUNKS[:3]], shared=True)
    offered = make_pack(repository, [CHUNKS], offered=True)
    private = make_pack(repository, [CHUNKS])
    repository.write_index([shared, offered, private])
    found = load(repository)
    assert len(found) == 3
    assert found.covers(offered.columns).tolist() == [True, True, True, False]
    assert not found.covers(private.columns).any()
    assert found.has(chunk_ids_of(repository, CHUNKS, offered=True)).tolist() == [
        True, True, True, False,
    ]  # fmt: skip
    assert not found.has(chunk_ids_of(repository, CHUNKS)).any()


def test_packs_of_clients_packs_that_do_not_count_and_lost_bytes_cover_nothing(repository):
    shared = make_pack(repository, [CHUNKS[:1]], shared=True)
    thinned = make_thinned_pack(repository, CHUNKS[1:], [False, True, True], shared=True)
    own = make_pack(repository, [CHUNKS], offered=True)
    repository.write_index([shared, thinned, own])
    wanted = chunk_ids_of(repository, CHUNKS, offered=True)
    assert load(repository).has(wanted).tolist() == [True, False, True, True]
    without = load(repository, without={shared.pack_id})
    assert without.has(wanted).tolist() == [False, False, True, True]


def test_a_mark_leads_to_the_shared_block_of_each_chunk(repository):
    blocks = [CHUNKS[:2], CHUNKS[2:]]
    shared = make_pack(repository, blocks, shared=True)
    repository.write_index([shared])
    live = LiveBlocks()
    found = load(repository)
    wanted = chunk_ids_of(repository, [b"two", b"three"], offered=True)
    found.mark(b"", live)
    assert not live.uses(shared.columns.block_ids, SHARED).any()
    found.mark(wanted, live)
    counts = np.array([2, 2])
    flags = live.flags(shared.columns.block_ids, counts, SHARED)
    assert flags.tolist() == [False, True, True, False]
    # As used by everybody, so that a client's own copy stays where the shared one is lost.
    owner = repository.writer.client_id
    assert live.uses(shared.columns.block_ids, owner).all()


def test_a_chunk_without_bytes_is_read_from_the_shared_packs(repository):
    make_it = {"live": [False, True, False, False], "offered": True}
    thinned = make_thinned_pack(repository, CHUNKS, **make_it)
    shared = make_pack(repository, [CHUNKS[:1], CHUNKS[2:3]], shared=True)
    repository.write_index([thinned, shared])
    blocks = repository.load_index().of_client(repository.writer.client_id)
    reader = repository.block_reader(blocks)
    wanted = block_id_of(repository, CHUNKS, offered=True)
    assert [bytes(reader.chunk(wanted, slot)) for slot in range(3)] == CHUNKS[:3]
    assert [reader.chunk_length(wanted, slot) for slot in range(4)] == [3, 3, 5, 4]
    assert reader.is_chunk(wanted, 0, b"one")
    with pytest.raises(DamageError, match="dropped"):
        reader.chunk(wanted, 3)


def test_a_chunk_that_was_not_offered_is_not_looked_for_there(repository):
    thinned = make_thinned_pack(repository, CHUNKS, [False, True, True, True])
    shared = make_pack(repository, [CHUNKS], shared=True)
    repository.write_index([thinned, shared])
    assert len(shared.columns.chunk_ids) == len(CHUNKS) * CHUNK_ID_SIZE
    blocks = repository.load_index().of_client(repository.writer.client_id)
    with pytest.raises(DamageError, match="dropped"):
        repository.block_reader(blocks).chunk(block_id_of(repository, CHUNKS), 0)
