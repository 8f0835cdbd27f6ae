"""Packs: the files in which blocks are stored, each with its own key and a footer.

    header (56): magic "SRPK" | version u8 | cipher u8 | kind u8 | 0 u8 | owner (16)
                 | ephemeral X25519 public (32)
    blocks, each sealed under the pack key (content.ciphers), without a gap
    footer: sealed object under the footer key: the columns of the blocks (block_columns)
    of a shared pack: the appliance's signature (64) of the header and the footer's digest
    trailer (8): footer size u32 | magic "SRPF"

The owner is the id of a client, or zeros for what all clients may refer to (`keys.owners`). The
pack key is HKDF-SHA256 of X25519(ephemeral, restore public key) with the rest of the header: the
writer discards the ephemeral private key and can't read the pack again. Associated data of a block
is the header, its number u32, codec u8, flags u8, raw length u32, size of its bitmap of dropped
chunks u32, block id and bitmap, so a block can't be moved, relabelled or substituted; for a block
stored without compression it determines the text. The footer key is derived from the owner's index
key and the header. A pack's name is the BLAKE3-256 of the whole file.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec
from blake3 import blake3
from typing_extensions import Buffer

from strongroom.base import clock
from strongroom.base.decoding import reading
from strongroom.base.errors import DamageError, UnknownFormatError
from strongroom.engine.content.ciphers import (
    BLOCK_OVERHEAD_SIZE,
    KEY_SIZE,
    SEALED_OVERHEAD_SIZE,
    BlockCipher,
    open_object,
    seal_object,
)
from strongroom.engine.content.codecs import NONE as NOT_COMPRESSED
from strongroom.engine.content.digests import BLOCK_ID_SIZE, CHUNK_ID_SIZE
from strongroom.engine.repository.block_columns import (
    CHUNKS_LIMIT,
    OFFERED,
    RAW_LENGTH_LIMIT,
    THINNED,
    BlockColumns,
    chunk_starts,
    dead_starts,
    decode_head,
    decode_tail,
    encode_head,
    encode_tail,
)
from strongroom.engine.repository.keys.owners import (
    SHARED,
    SIGNATURE_SIZE,
    agree,
    is_signed,
    public_of,
)
from strongroom.engine.repository.keys.roles import (
    Key,
    ReadingKey,
    footer_key,
    pack_key,
    required_appliance_key,
)
from strongroom.engine.stores.at_once import at_once, most_together
from strongroom.engine.stores.store import Store

KIND_DATA = 0
KIND_LISTING = 1

HEADER_SIZE = 56
# A pack of this size is finished; the last block may make it larger.
PACK_SIZE_BYTES = 32 << 20
FOOTER_SIZE_LIMIT = 512 << 20

_VERSION = 1
_MAGIC = b"SRPK"
_END_MAGIC = b"SRPF"
_HEADER = struct.Struct("<4sBBBx16s32s")
_TRAILER = struct.Struct("<I4s")
# What is read of a distant pack's end at first: most footers, and what is behind them.
_TAIL_BYTES = 64 << 10
_BLOCK_AAD = struct.Struct("<IBBII")
_FOOTER_LABEL = b"strongroom footer 1"
_SIGNED_PURPOSE = b"strongroom shared pack 1"


class BlockEntry(NamedTuple):
    """One block of a pack; `dead` is b"" or a bitmap of the chunks whose bytes were dropped."""

    block_id: bytes
    number: int
    codec: int
    offset: int
    stored_length: int
    raw_length: int
    chunk_ids: bytes
    chunk_lengths: array[int]
    dead: bytes
    offered: bool


class PackFooter(msgspec.Struct, frozen=True):
    """The content of a pack; `pack_id` is the 32 bytes of its name."""

    owner: bytes
    pack_id: bytes
    kind: int
    size_bytes: int
    columns: BlockColumns

    @property
    def blocks(self) -> list[BlockEntry]:
        """The blocks as rows, in the order in which they are stored."""
        columns = self.columns
        stored = memoryview(columns.stored_lengths).cast("I")
        raw = memoryview(columns.raw_lengths).cast("I")
        starts = chunk_starts(columns.chunk_counts).tolist()
        dead = dead_starts(columns).tolist()
        entries = []
        offset = HEADER_SIZE
        for number in range(columns.block_count):
            first, last = starts[number], starts[number + 1]
            entries.append(
                BlockEntry(
                    columns.block_ids[number * BLOCK_ID_SIZE : (number + 1) * BLOCK_ID_SIZE],
                    number,
                    columns.codecs[number],
                    offset,
                    stored[number],
                    raw[number],
                    columns.chunk_ids[first * CHUNK_ID_SIZE : last * CHUNK_ID_SIZE],
                    array("I", columns.chunk_lengths[first * 4 : last * 4]),
                    columns.dead[dead[number] : dead[number + 1]],
                    bool(columns.flags[number] & OFFERED),
                )
            )
            offset += stored[number]
        return entries


class PackHeader(NamedTuple):
    """The first 56 bytes of a pack, encoded and decoded."""

    raw: bytes
    cipher: int
    kind: int
    owner: bytes
    ephemeral_public: bytes


class PackWriter:
    """Writes one pack; for one thread at a time."""

    def __init__(self, store: Store, key: Key, owner: bytes, kind: int, cipher: int) -> None:
        """KeyRightError where the key may not write this owner's packs."""
        ephemeral = clock.random_bytes(KEY_SIZE)
        self._sign = required_appliance_key(key).sign if owner == SHARED else None
        self._owner = owner
        self._kind = kind
        self._cipher = cipher
        self._header = _HEADER.pack(_MAGIC, _VERSION, cipher, kind, owner, public_of(ephemeral))
        self._footer_key = footer_key(key.owner(owner), self._header)
        shared = agree(ephemeral, key.restore_public)
        self._block_cipher = BlockCipher(cipher, pack_key(shared, self._header, key.restore_public))
        self._block_ids = bytearray()
        self._codecs = bytearray()
        self._stored_lengths = array("I")
        self._raw_lengths = array("I")
        self._chunk_counts = array("H")
        self._flags = bytearray()
        self._chunk_ids = bytearray()
        self._chunk_lengths = array("I")
        self._dead = bytearray()
        self._sealed = bytearray()
        self._hasher = blake3()
        self._writer = store.writer("packs")
        self.size_bytes = 0
        try:
            self._write(self._header)
        except BaseException:
            # No caller has the pack yet to abort it.
            self._writer.abort()
            raise

    @property
    def block_count(self) -> int:
        """Blocks added so far."""
        return len(self._codecs)

    def add(
        self,
        block_id: bytes,
        chunk_ids: Buffer,
        chunk_lengths: Sequence[int],
        codec: int,
        compressed: Buffer,
        raw_length: int,
        dead: bytes = b"",
        *,
        offered: bool = False,
    ) -> None:
        """Append a block: n * 24 bytes of chunk ids, n lengths, and the compressed bytes.

        `raw_length` is the sum of the lengths (for a thinned block: of those not in `dead`).
        offered: the ids are under the common keys; blocks of a shared pack all are.
        """
        ids = memoryview(chunk_ids).cast("B")
        count = len(chunk_lengths)
        if len(ids) != count * CHUNK_ID_SIZE or len(block_id) != BLOCK_ID_SIZE:
            raise ValueError("a block's ids have another size")
        if not 0 < count <= CHUNKS_LIMIT or raw_length > RAW_LENGTH_LIMIT:
            raise ValueError(f"a block of {count} chunks and {raw_length} bytes can't be stored")
        number = len(self._codecs)
        data = memoryview(compressed).cast("B")
        sealed_size = len(data) + BLOCK_OVERHEAD_SIZE
        if len(self._sealed) < sealed_size:
            self._sealed = bytearray(sealed_size)
        sealed = memoryview(self._sealed)[:sealed_size]
        shared = self._owner == SHARED
        flags = (THINNED if dead else 0) | (OFFERED if offered or shared else 0)
        aad = block_aad(self._header, number, codec, flags, raw_length, block_id, dead)
        self._block_cipher.seal_into(data, aad, sealed, aad_fixes_text=codec == NOT_COMPRESSED)
        self._write(sealed)
        self._block_ids += block_id
        self._codecs.append(codec)
        self._stored_lengths.append(sealed_size)
        self._raw_lengths.append(raw_length)
        self._chunk_counts.append(count)
        self._flags.append(flags)
        self._chunk_ids += ids
        self._chunk_lengths.extend(chunk_lengths)
        self._dead += dead

    def finish(self) -> PackFooter:
        """Write footer and trailer and publish the pack; after StoreError nothing of it remains."""
        columns = BlockColumns(
            block_ids=bytes(self._block_ids),
            codecs=bytes(self._codecs),
            stored_lengths=self._stored_lengths.tobytes(),
            raw_lengths=self._raw_lengths.tobytes(),
            chunk_counts=self._chunk_counts.tobytes(),
            flags=bytes(self._flags),
            chunk_ids=bytes(self._chunk_ids),
            chunk_lengths=self._chunk_lengths.tobytes(),
            dead=bytes(self._dead),
        )
        footer = seal_object(
            self._footer_key,
            _FOOTER_LABEL,
            encode_head(columns) + encode_tail(columns),
            self._cipher,
        )
        try:
            self._write(footer)
            if self._sign is not None:
                self._write(self._sign(_signed_text(self._header, footer)))
            self._write(_TRAILER.pack(len(footer), _END_MAGIC))
            pack_id = self._hasher.digest()
            self._writer.commit(pack_id.hex())
        finally:
            # An unpublished pack would fill the disk until a prune.
            self._writer.abort()
        return PackFooter(self._owner, pack_id, self._kind, self.size_bytes, columns)

    def abort(self) -> None:
        """Discard the pack; harmless after `finish`."""
        self._writer.abort()

    def _write(self, data: Buffer) -> None:
        self._hasher.update(data)
        self._writer.write(data)
        self.size_bytes += memoryview(data).nbytes


def parse_header(raw: bytes) -> PackHeader:
    """Decode a pack's first 56 bytes; DamageError or UnknownFormatError."""
    if len(raw) != HEADER_SIZE or raw[:4] != _MAGIC:
        raise DamageError("a pack does not begin as packs do; run check")
    _, version, cipher, kind, owner, public = _HEADER.unpack(raw)
    if version != _VERSION:
        raise UnknownFormatError(f"a pack has version {version}; update strongroom")
    return PackHeader(raw, cipher, kind, owner, public)


def read_owner(store: Store, pack_id: bytes) -> bytes:
    """Whose a stored pack says it is; DamageError, UnknownFormatError."""
    return parse_header(store.get("packs", pack_id.hex(), 0, HEADER_SIZE)).owner


def open_block_cipher(header: PackHeader, key: ReadingKey, pack_id: bytes) -> BlockCipher:
    """The cipher of a pack's blocks; KeyRightError when the key does not open this pack."""
    return BlockCipher(header.cipher, key.pack_key(header, pack_id))


def block_aad(
    header: bytes,
    number: int,
    codec: int,
    flags: int,
    raw_length: int,
    block_id: bytes,
    dead: bytes,
) -> bytes:
    """What is authenticated along with a block; `dead`: its bitmap of dropped chunks, or b""."""
    fixed = _BLOCK_AAD.pack(number, codec, flags, raw_length, len(dead))
    return b"".join((header, fixed, block_id, dead))


def entry_aad(header: bytes, entry: BlockEntry) -> bytes:
    """What is authenticated along with the block of an entry."""
    flags = (THINNED if entry.dead else 0) | (OFFERED if entry.offered else 0)
    return block_aad(
        header, entry.number, entry.codec, flags, entry.raw_length, entry.block_id, entry.dead
    )


def read_footer(store: Store, key: Key, pack_id: bytes, size_bytes: int = 0) -> PackFooter:
    """The footer of a stored pack, with any key; DamageError when it is not sound.

    size_bytes: of the pack, from a list or an index; 0 where it is not known.
    """
    return read_ends(store, key, pack_id, size_bytes)[1]


def read_ends(
    store: Store, key: Key, pack_id: bytes, size_bytes: int = 0
) -> tuple[PackHeader, PackFooter]:
    """As `read_footer`, with the header."""
    with reading(f"pack {pack_id.hex()}"):
        if size_bytes:
            # The size may be wrong where the pack is not.
            with suppress(DamageError):
                return _read_ends(store, key, pack_id, size_bytes)
        return _read_ends(store, key, pack_id, store.info("packs", pack_id.hex()).size_bytes)


def _read_ends(store: Store, key: Key, pack_id: bytes, size: int) -> tuple[PackHeader, PackFooter]:
    name = pack_id.hex()
    if size < HEADER_SIZE + SEALED_OVERHEAD_SIZE + _TRAILER.size:
        raise DamageError(f"pack {name} is cut off at {size} bytes; run repair")
    # Near, what is read for nothing costs more than another call.
    tail_at = size - (min(size, _TAIL_BYTES) if most_together(store) > 1 else _TRAILER.size)
    raw, tail = at_once(
        store,
        lambda: store.get("packs", name, 0, HEADER_SIZE),
        lambda: store.get("packs", name, tail_at, size - tail_at),
    )
    header, trailer = parse_header(raw), tail[-_TRAILER.size :]
    footer_size, magic = _TRAILER.unpack(trailer)
    signature_size = SIGNATURE_SIZE if header.owner == SHARED else 0
    footer_at = size - _TRAILER.size - signature_size - footer_size
    if magic != _END_MAGIC or footer_at < HEADER_SIZE or footer_size > FOOTER_SIZE_LIMIT:
        raise DamageError(f"pack {name} does not end as packs do; run repair")
    if footer_at < tail_at:
        tail = store.get("packs", name, footer_at, tail_at - footer_at) + tail
    sealed = tail[-_TRAILER.size - signature_size - footer_size : -_TRAILER.size]
    sealed, signature = sealed[:footer_size], sealed[footer_size:]
    if signature_size and not is_signed(
        key.verify_key, signature, _signed_text(header.raw, sealed)
    ):
        raise DamageError(f"pack {name} is for all clients, but the appliance did not sign it")
    footer_key = key.footer_key(header, pack_id)
    encoded = memoryview(open_object(footer_key, _FOOTER_LABEL, sealed))
    head = decode_head(encoded)
    columns = decode_tail(head, encoded[head.encoded_size :])
    footer = PackFooter(header.owner, pack_id, header.kind, size, columns)
    if sum(memoryview(columns.stored_lengths).cast("I")) != footer_at - HEADER_SIZE:
        raise DamageError(f"pack {name}: its blocks do not fill it; run repair")
    return header, footer


def _signed_text(header: bytes, footer: bytes) -> bytes:
    return _SIGNED_PURPOSE + header + blake3(footer).digest()
