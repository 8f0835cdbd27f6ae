"""Blocks read back as written, and nothing else is ever handed out."""

import threading

import pytest
from blake3 import blake3

from kit.block_making import block_id_of, chunk_ids_of, make_pack, make_thinned_pack
from kit.passing_store import PassingStore
from strongroom.base.errors import DamageError, UnknownFormatError
from strongroom.engine.content.codecs import ZSTD, parse_compression
from strongroom.engine.repository.blocks import BlockReader
from strongroom.engine.repository.index.index import Index
from strongroom.engine.repository.packs import KIND_DATA, BlockColumns, PackFooter

SMALL = [b"one", b"", b"two" * 100, bytes(1000)]
LARGE = [blake3(b"large").digest(100_000)]
MANY = [[b"block %d, chunk %d" % (block, chunk) for chunk in range(3)] for block in range(30)]


def reader_of(repository, footers, **options):
    index = Index()
    for footer in footers:
        index.add(footer)
    blocks = index.of_client(repository.writer.client_id)
    return BlockReader(repository.store, repository.restore_key, blocks, **options)


@pytest.mark.parametrize(
    "name", ["none", "auto", "gzip1", "lzfast", "lz4", "lz4hc", "zstd1", "zstd19"]
)
def test_blocks_and_chunks_of_every_codec_read_back(repository, name):
    blocks = [SMALL, LARGE, *MANY]
    footer = make_pack(repository, blocks, compression=parse_compression(name))
    reader = reader_of(repository, [footer])
    for chunks in blocks:
        wanted = block_id_of(repository, chunks)
        assert reader.block(wanted) == b"".join(chunks)
        for slot, chunk in enumerate(chunks):
            assert reader.chunk(wanted, slot) == chunk
            assert reader.chunk_length(wanted, slot) == len(chunk)
            assert reader.is_chunk(wanted, slot, chunk)
            assert not reader.is_chunk(wanted, slot, chunk + b"x")


def test_many_blocks_come_once_each_in_the_order_of_the_packs(repository):
    footers = [make_pack(repository, MANY[:10]), make_pack(repository, MANY[10:])]
    reader = reader_of(repository, footers)
    wanted = [block_id_of(repository, chunks) for chunks in MANY]
    given = list(reader.blocks([*reversed(wanted), *wanted]))
    stored = [
        entry.block_id
        for footer in sorted(footers, key=lambda footer: footer.pack_id)
        for entry in footer.blocks
    ]
    assert [block_id for block_id, _ in given] == stored
    assert dict(given) == {block_id_of(repository, chunks): b"".join(chunks) for chunks in MANY}


def test_neighbours_are_fetched_by_one_read(repository):
    footer = make_pack(repository, [[bytes([n]) * 50] for n in range(100)])
    reads = []
    store = PassingStore(repository.store, reads.append)
    index = Index()
    index.add(footer)
    blocks = index.of_client(repository.writer.client_id)
    reader = BlockReader(store, repository.restore_key, blocks)
    wanted = [entry.block_id for entry in footer.blocks]
    reader.prefetch(wanted)
    # One for all blocks and one for the header.
    assert len(reads) == 2
    assert reader.block(wanted[50]) == bytes([50]) * 50
    assert len(reads) == 2


def test_a_small_cache_still_gives_every_block(repository):
    footer = make_pack(repository, [SMALL, LARGE, *MANY])
    reader = reader_of(repository, [footer], cache=100)
    for _ in range(2):
        for chunks in (SMALL, LARGE, *MANY):
            assert reader.block(block_id_of(repository, chunks)) == b"".join(chunks)


def test_threads_may_read_at_the_same_time(repository):
    footer = make_pack(repository, MANY)
    reader = reader_of(repository, [footer], cache=200)
    failures = []

    def read(start):
        for turn in range(200):
            chunks = MANY[(start + turn * 7) % len(MANY)]
            if reader.chunk(block_id_of(repository, chunks), turn % 3) != chunks[turn % 3]:
                failures.append(turn)

    threads = [threading.Thread(target=read, args=(start,)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_what_a_thinned_block_kept_reads_back_and_what_it_lost_is_named(repository):
    chunks = [b"kept", b"lost", b"also kept", b"lost too"]
    footer = make_thinned_pack(repository, chunks, [True, False, True, False])
    reader = reader_of(repository, [footer])
    wanted = block_id_of(repository, chunks)
    assert reader.chunk(wanted, 0) == b"kept"
    assert reader.chunk(wanted, 2) == b"also kept"
    for slot in (1, 3):
        with pytest.raises(DamageError, match="dropped"):
            reader.chunk(wanted, slot)


def test_a_slot_that_is_not_there_is_damage(repository):
    reader = reader_of(repository, [make_pack(repository, [SMALL])])
    with pytest.raises(DamageError, match="slot 4"):
        reader.chunk(block_id_of(repository, SMALL), 4)


def forged_pack(repository, claimed, ids, chunks):
    """A pack, properly sealed, that says of `chunks` what is not so."""
    pack = repository.new_pack(KIND_DATA)
    raw = b"".join(chunks)
    pack.add(claimed, ids, [len(chunk) for chunk in chunks], 0, raw, len(raw))
    return pack.finish()


def test_another_block_under_a_block_id_is_found(repository):
    for honest in ([b"one", b"two"], [b"single"]):
        claimed = block_id_of(repository, honest)
        others = [b"x" * len(chunk) for chunk in honest]
        footer = forged_pack(repository, claimed, chunk_ids_of(repository, others), others)
        with pytest.raises(DamageError, match="something else"):
            reader_of(repository, [footer]).block(claimed)


def test_other_bytes_under_honest_chunk_ids_are_found(repository):
    honest, forged = [b"one", b"two"], [b"one", b"2.0"]
    claimed = block_id_of(repository, honest)
    footer = forged_pack(repository, claimed, chunk_ids_of(repository, honest), forged)
    reader = reader_of(repository, [footer])
    assert reader.chunk(claimed, 0) == b"one"
    with pytest.raises(DamageError, match="its id"):
        reader.chunk(claimed, 1)


def test_chunks_in_another_order_are_found(repository):
    honest = [b"one", b"two"]
    claimed = block_id_of(repository, honest)
    swapped = honest[::-1]
    for ids in (chunk_ids_of(repository, swapped), chunk_ids_of(repository, honest)):
        reader = reader_of(repository, [forged_pack(repository, claimed, ids, swapped)])
        with pytest.raises(DamageError):
            bytes(reader.chunk(claimed, 0)) + bytes(reader.chunk(claimed, 1))


def test_any_changed_byte_of_a_block_is_found(repository):
    footer = make_pack(repository, [SMALL])
    name = footer.pack_id.hex()
    data = repository.store.get("packs", name)
    (entry,) = footer.blocks
    for at in (*range(40), *range(entry.offset, entry.offset + entry.stored_length)):
        repository.store.delete("packs", name)
        repository.store.put("packs", name, data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :])
        with pytest.raises((DamageError, UnknownFormatError)):
            reader_of(repository, [footer]).block(entry.block_id)


def test_blocks_cannot_change_places(repository):
    one, two = [b"a" * 50], [b"b" * 50]
    footer = make_pack(repository, [one, two], compression=parse_compression("none"))
    name = footer.pack_id.hex()
    data = repository.store.get("packs", name)
    first, second = footer.blocks
    middle, end = second.offset, second.offset + second.stored_length
    swapped = data[: first.offset] + data[middle:end] + data[first.offset : middle] + data[end:]
    repository.store.delete("packs", name)
    repository.store.put("packs", name, swapped)
    for entry in footer.blocks:
        with pytest.raises(DamageError, match="authentication"):
            reader_of(repository, [footer]).block(entry.block_id)


def relabelled(footer, **columns):
    """The footer a hostile index would claim."""
    fields = {name: getattr(footer.columns, name) for name in BlockColumns.__struct_fields__}
    return PackFooter(
        footer.owner,
        footer.pack_id,
        footer.kind,
        footer.size_bytes,
        BlockColumns(**{**fields, **columns}),
    )


def test_an_index_cannot_lie_about_codec_length_or_extent(repository):
    footer = make_pack(repository, [[b"text " * 100]])
    wanted = footer.blocks[0].block_id
    stored = footer.blocks[0].stored_length
    lies = [
        {"codecs": b"\0"},
        {"codecs": bytes([ZSTD + 1])},
        {"raw_lengths": (501).to_bytes(4, "little")},
        {"raw_lengths": (200 << 20).to_bytes(4, "little")},
        {"stored_lengths": (stored - 1).to_bytes(4, "little")},
        {"stored_lengths": (15).to_bytes(4, "little")},
        {"stored_lengths": (0xFFFFFFF0).to_bytes(4, "little")},
    ]
    for lie in lies:
        with pytest.raises(DamageError):
            reader_of(repository, [relabelled(footer, **lie)]).block(wanted)
    assert reader_of(repository, [footer]).block(wanted) == b"text " * 100
