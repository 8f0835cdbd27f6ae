"""A pack reads back as it was written; no part of it can be changed, moved or cut."""

import os
from array import array

import pytest
from blake3 import blake3

from kit.block_making import block_id_of, chunk_ids_of, make_pack, make_thinned_pack
from kit.tiny_backup import CHEAP, PASSPHRASE, new_repository
from strongroom.base.errors import (
    DamageError,
    KeyRightError,
    ObjectMissingError,
    UnknownFormatError,
)
from strongroom.engine.content.ciphers import NONCE_SIZE, TAG_SIZE
from strongroom.engine.content.ciphers import NONE as CIPHER_NONE
from strongroom.engine.content.codecs import NONE, ZSTD, decompress
from strongroom.engine.content.digests import BLOCK_ID_SIZE, block_id, chunk_id, ids_and_lengths
from strongroom.engine.repository.keys.owners import SHARED
from strongroom.engine.repository.keys.roles import new_restore_key
from strongroom.engine.repository.packs import (
    HEADER_SIZE,
    KIND_DATA,
    KIND_LISTING,
    PackWriter,
    entry_aad,
    open_block_cipher,
    parse_header,
    read_footer,
)
from strongroom.engine.repository.repository import Repository
from strongroom.engine.stores.local import LocalStore

BLOCKS = [[b"one", b"two", b""], [b"x" * 5000], [bytes(100), b"y" * 70]]


@pytest.fixture(params=["aes-256-gcm", "chacha20-poly1305", "none"])
def repository(request, tmp_path):
    made = Repository.create(
        LocalStore(tmp_path / "r"), PASSPHRASE, encryption=request.param, cost=CHEAP
    )
    return made.for_client("host")


def stored(repository, footer):
    return repository.store.get("packs", footer.pack_id.hex())


def test_the_footer_says_what_was_written(repository):
    footer = make_pack(repository, BLOCKS)
    assert read_footer(repository.store, repository.writer, footer.pack_id) == footer
    assert footer.size_bytes == len(stored(repository, footer))
    assert footer.kind == KIND_DATA
    assert make_pack(repository, BLOCKS, KIND_LISTING).kind == KIND_LISTING
    for entry, chunks in zip(footer.blocks, BLOCKS, strict=True):
        assert entry.block_id == block_id_of(repository, chunks)
        assert entry.chunk_ids == chunk_ids_of(repository, chunks)
        assert entry.chunk_lengths.tolist() == [len(chunk) for chunk in chunks]
        assert entry.raw_length == sum(map(len, chunks))
        assert entry.dead == b""


def test_a_pack_is_named_by_its_bytes(repository):
    footer = make_pack(repository, BLOCKS)
    assert blake3(stored(repository, footer)).digest() == footer.pack_id


def test_every_block_opens_with_the_restore_key(repository):
    footer = make_pack(repository, BLOCKS)
    data = stored(repository, footer)
    header = parse_header(data[:HEADER_SIZE])
    cipher = open_block_cipher(header, repository.restore_key, footer.pack_id)
    for entry, chunks in zip(footer.blocks, BLOCKS, strict=True):
        sealed = data[entry.offset : entry.offset + entry.stored_length]
        text = cipher.open(sealed, entry_aad(header.raw, entry))
        assert decompress(entry.codec, text, entry.raw_length) == b"".join(chunks)


class Collected:
    """A store that keeps in memory what is written to it, once for each process."""

    def __init__(self):
        self.data = bytearray()

    def writer(self, kind):
        return self

    def write(self, data):
        self.data += data

    def abort(self):
        pass


@pytest.mark.parametrize("codec", [NONE, ZSTD])
def test_a_pack_open_while_the_machine_is_set_back_leaks_nothing(repository, codec):
    """As after a virtual machine's snapshot, the same block number is sealed twice."""
    texts = (b"the first future " * 4, b"another future!! " * 4)
    key, store = repository.writer, Collected()
    pack = PackWriter(store, key, key.client_id, KIND_DATA, repository.cipher)
    packs = []
    for text in texts:
        reading, writing = os.pipe()
        if not os.fork():
            lengths = array("I", [len(text)])
            ids = chunk_id(key.client.own.chunk_key, text)
            block = block_id(key.client.own.block_key, ids_and_lengths(ids, lengths))
            pack.add(block, ids, lengths, codec, text, len(text))
            os.write(writing, store.data)
            os._exit(0)
        os.close(writing)
        with open(reading, "rb") as pipe:
            packs.append(pipe.read())
        os.wait()
    nonces = [data[HEADER_SIZE : HEADER_SIZE + NONCE_SIZE] for data in packs]
    ciphertexts = [data[HEADER_SIZE + NONCE_SIZE : -TAG_SIZE] for data in packs]
    assert packs[0][:HEADER_SIZE] == packs[1][:HEADER_SIZE]
    assert nonces[0] != nonces[1]
    assert len(ciphertexts[0]) == len(texts[0]) == len(texts[1])
    if repository.cipher != CIPHER_NONE:
        assert xor(*ciphertexts) != xor(*texts)


def xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))


def test_the_writer_cannot_open_its_own_pack(tmp_path):
    repository = new_repository(LocalStore(tmp_path / "r"))
    put_only = Repository.open(repository.store, repository.writer)
    footer = make_pack(put_only, BLOCKS)
    assert b"x" * 20 not in stored(put_only, footer)
    assert not hasattr(put_only.key, "private")


def test_no_two_packs_of_the_same_blocks_look_alike(repository):
    assert make_pack(repository, BLOCKS).pack_id != make_pack(repository, BLOCKS).pack_id


def test_a_pack_without_blocks_is_whole(repository):
    footer = make_pack(repository, [])
    assert read_footer(repository.store, repository.key, footer.pack_id).blocks == []


def test_a_thinned_block_keeps_the_ids_and_lengths_of_what_it_lost(repository):
    chunks = [b"a" * 10, b"b" * 20, b"c" * 30] * 5
    live = [slot % 3 != 1 for slot in range(15)]
    footer = make_thinned_pack(repository, chunks, live)
    (entry,) = read_footer(repository.store, repository.key, footer.pack_id).blocks
    assert entry.block_id == block_id_of(repository, chunks)
    assert entry.chunk_lengths.tolist() == [len(chunk) for chunk in chunks]
    assert entry.raw_length == sum(len(c) for c, keep in zip(chunks, live, strict=True) if keep)
    assert [entry.dead[slot // 8] >> slot % 8 & 1 for slot in range(15)] == [
        0 if keep else 1 for keep in live
    ]


def test_an_aborted_pack_leaves_nothing(repository):
    pack = repository.new_pack(KIND_DATA)
    pack.add(bytes(BLOCK_ID_SIZE), bytes(24), [3], 0, b"abc", 3)
    pack.abort()
    assert list(repository.store.list("packs")) == []
    assert repository.store.remove_abandoned() == 0


@pytest.mark.parametrize(
    "arguments",
    [
        (bytes(15), bytes(24), [3], 0, b"abc", 3),
        (bytes(BLOCK_ID_SIZE), bytes(23), [3], 0, b"abc", 3),
        (bytes(BLOCK_ID_SIZE), b"", [], 0, b"", 0),
        (bytes(BLOCK_ID_SIZE), bytes(24) * 65536, [0] * 65536, 0, b"", 0),
        (bytes(BLOCK_ID_SIZE), bytes(24), [1 << 30], 0, b"abc", 1 << 30),
    ],
)
def test_a_block_that_cannot_be_read_back_is_not_written(repository, arguments):
    pack = repository.new_pack(KIND_DATA)
    with pytest.raises(ValueError):
        pack.add(*arguments)
    pack.abort()


def replant(repository, data):
    """Store forged bytes under the name they would need."""
    pack_id = blake3(data).digest()
    repository.store.put("packs", pack_id.hex(), data)
    return pack_id


@pytest.mark.parametrize("shared", [False, True])
def test_a_changed_byte_of_header_footer_or_trailer_is_found(repository, shared):
    footer = make_pack(repository, BLOCKS, shared=shared)
    data = stored(repository, footer)
    footer_at = footer.blocks[-1].offset + footer.blocks[-1].stored_length
    for at in (
        *range(HEADER_SIZE),
        *range(footer_at, len(data), 7),
        *range(len(data) - 8, len(data)),
    ):
        forged = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        with pytest.raises((DamageError, UnknownFormatError)):
            read_footer(repository.store, repository.key, replant(repository, forged))


@pytest.mark.parametrize("shared", [False, True])
def test_a_pack_cut_anywhere_is_found(repository, shared):
    data = stored(repository, make_pack(repository, BLOCKS, shared=shared))
    for size in range(0, len(data), 11):
        with pytest.raises(DamageError):
            read_footer(repository.store, repository.key, replant(repository, data[:size]))


def test_a_pack_that_grew_is_found(repository):
    footer = make_pack(repository, BLOCKS)
    data = stored(repository, footer)
    at = footer.blocks[-1].offset + footer.blocks[-1].stored_length
    for forged in (data + b"x", data[:at] + b"x" + data[at:], data + data[at:]):
        with pytest.raises(DamageError):
            read_footer(repository.store, repository.key, replant(repository, forged))


def test_the_footer_of_another_pack_is_found(repository):
    one, two = (make_pack(repository, BLOCKS) for _ in range(2))
    data, other = stored(repository, one), stored(repository, two)
    at = one.blocks[-1].offset + one.blocks[-1].stored_length
    with pytest.raises(DamageError):
        read_footer(repository.store, repository.key, replant(repository, data[:at] + other[at:]))


def test_a_footer_of_absurd_size_is_refused_before_it_is_read(repository):
    data = stored(repository, make_pack(repository, BLOCKS))
    for claimed in (0xFFFFFFFF, len(data), 0):
        forged = data[:-8] + claimed.to_bytes(4, "little") + data[-4:]
        with pytest.raises(DamageError):
            read_footer(repository.store, repository.key, replant(repository, forged))


def test_a_newer_version_is_not_taken_for_damage(repository):
    data = stored(repository, make_pack(repository, BLOCKS))
    with pytest.raises(UnknownFormatError, match="update"):
        read_footer(
            repository.store, repository.key, replant(repository, data[:4] + b"\2" + data[5:])
        )


def test_the_key_of_another_repository_reads_no_footer(repository, tmp_path):
    other = new_repository(LocalStore(tmp_path / "other"))
    footer = make_pack(repository, BLOCKS)
    with pytest.raises(DamageError):
        read_footer(repository.store, other.key, footer.pack_id)


def test_a_shared_pack_is_read_by_every_client_and_only_as_the_appliance_signed_it(repository):
    footer = make_pack(repository, BLOCKS, shared=True)
    assert footer.owner == SHARED
    assert all(entry.offered for entry in footer.blocks)
    web1 = repository.key.put_key("web1")
    assert read_footer(repository.store, web1, footer.pack_id) == footer
    data = stored(repository, footer)
    unsigned, signature, trailer = data[:-72], data[-72:-8], data[-8:]
    other = make_pack(repository, BLOCKS, shared=True)
    for forged in (bytes(64), b"", stored(repository, other)[-72:-8], new_restore_key().sign(b"")):
        assert forged != signature
        with pytest.raises(DamageError):
            read_footer(repository.store, web1, replant(repository, unsigned + forged + trailer))


def test_the_pack_of_a_client_is_closed_to_others(repository):
    footer = make_pack(repository, BLOCKS)
    web1 = repository.key.put_key("web1")
    with pytest.raises(KeyRightError):
        read_footer(repository.store, web1, footer.pack_id)
    with pytest.raises(KeyRightError):
        PackWriter(repository.store, web1, footer.owner, KIND_DATA, repository.cipher)
    # Its bytes under another's header neither.
    data = stored(repository, footer)
    forged = replant(repository, data[:8] + web1.client_id + data[24:])
    for key in (web1, repository.key):
        with pytest.raises(DamageError):
            read_footer(repository.store, key, forged)


def test_an_offered_block_is_not_taken_for_another_nor_the_other_way_round(repository):
    chunks = [b"public", b"file"]
    footers = [make_pack(repository, [chunks], offered=offered) for offered in (True, False)]
    one, other = (footer.blocks[0] for footer in footers)
    assert (one.offered, other.offered) == (True, False)
    assert one.block_id != other.block_id
    assert one.chunk_ids != other.chunk_ids
    header = parse_header(stored(repository, footers[0])[:HEADER_SIZE])
    assert entry_aad(header.raw, one) != entry_aad(header.raw, one._replace(offered=False))


def test_a_missing_pack_says_so(repository):
    with pytest.raises(ObjectMissingError):
        read_footer(repository.store, repository.key, bytes(32))
