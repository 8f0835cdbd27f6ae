"""Index objects: the contents of many packs in one object.

    magic "SRIX" | version u8 | 0 u8 x 3 | owner (16) | size of the first part u32
    first part, sealed: BLAKE3-256 of the second part | pack count u32 | superseded count u32
        | zstd size u32 | names of superseded index objects (32 each) | pack ids (32 each)
        | zstd of: kinds u8, block counts u32, pack sizes u64 | head of the block columns
    of shared packs: the appliance's signature (64) of all before it
    second part, sealed: tail of the columns

The first part is enough to find blocks; the second, some thousand times larger where files are
small, is read only to deduplicate. All packs of an index object have its owner. It replaces those
of the same owner that it names as superseded.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
import zstandard
from blake3 import blake3

from strongroom.base.decoding import reading
from strongroom.base.errors import DamageError, UnknownFormatError
from strongroom.engine.content.ciphers import (
    PREFIX_SIZE,
    object_prefix,
    open_with_object_key,
    seal_object,
)
from strongroom.engine.content.digests import (
    BLOCK_ID_SIZE,
    CHUNK_ID_SIZE,
    OBJECT_NAME_SIZE,
    object_name,
)
from strongroom.engine.repository.block_columns import (
    BlockColumns,
    BlockTableHead,
    chunk_starts,
    dead_starts,
    decode_head,
    decode_tail,
    encode_head,
    encode_tail,
    unpack,
    without_chunks,
)
from strongroom.engine.repository.index.selection import BlockSelection, only_blocks
from strongroom.engine.repository.keys.owners import SHARED, SIGNATURE_SIZE, is_signed
from strongroom.engine.repository.keys.roles import Key, required_appliance_key
from strongroom.engine.repository.packs import PackFooter
from strongroom.engine.stores.at_once import most_together, read_each
from strongroom.engine.stores.store import Store

_MAGIC = b"SRIX"
_VERSION = 1
_HEAD = struct.Struct("<4sB3x16sI")
_COUNTS = struct.Struct("<32sIII")
# The first part where an object describes some hundred packs; others are read apart.
_BEGINNING_BYTES = 32 << 10
_PACK_ROW_SIZE = 1 + 4 + 8
_LABEL = b"strongroom index 1"
_CHUNKS_LABEL = b"strongroom index chunks 1"
_SIGNED_PURPOSE = b"strongroom shared index 1"


class IndexObject(msgspec.Struct, frozen=True):
    """A decoded index object; read without its second part, the footers lack their chunks."""

    name: str
    owner: bytes
    superseded: tuple[str, ...]
    footers: tuple[PackFooter, ...]


class IndexedPacks(NamedTuple):
    """What the first part of an index object says of its packs."""

    second_digest: bytes
    superseded: tuple[str, ...]
    pack_ids: list[bytes]
    kinds: bytes
    block_counts: list[int]
    sizes: list[int]
    head: BlockTableHead


class IndexColumns(NamedTuple):
    """A decoded index object as columns of all its blocks; `columns` may lack the chunks."""

    name: str
    owner: bytes
    packs: IndexedPacks
    columns: BlockColumns


class IndexHead(NamedTuple):
    """The first bytes of an index object: whose packs it describes, and the size of its parts.

    beginning: what was read of it.
    """

    raw: bytes
    owner: bytes
    first_size: int
    beginning: bytes = b""


def write_index_object(
    store: Store,
    key: Key,
    owner: bytes,
    footers: Sequence[PackFooter],
    superseded: Sequence[str],
    cipher: int,
) -> str:
    """Store the index of some packs of one owner; its name. KeyRightError."""
    if any(footer.owner != owner for footer in footers):
        raise ValueError("the packs of an index object have one owner")
    columns = join_columns([footer.columns for footer in footers])
    packed = zstandard.compress(
        b"".join(
            (
                bytes(footer.kind for footer in footers),
                np.array([footer.columns.block_count for footer in footers], "<u4").tobytes(),
                np.array([footer.size_bytes for footer in footers], "<u8").tobytes(),
            )
        ),
        1,
    )
    index_key = key.owner(owner).index_key
    second = seal_object(index_key, _CHUNKS_LABEL, encode_tail(columns), cipher)
    digest = blake3(second).digest()
    text = b"".join(
        (
            _COUNTS.pack(digest, len(footers), len(superseded), len(packed)),
            *(bytes.fromhex(name) for name in superseded),
            *(footer.pack_id for footer in footers),
            packed,
            encode_head(columns),
        )
    )
    first = seal_object(index_key, _LABEL, text, cipher)
    data = _HEAD.pack(_MAGIC, _VERSION, owner, len(first)) + first
    if owner == SHARED:
        data += required_appliance_key(key).sign(_SIGNED_PURPOSE + data)
    data += second
    name = object_name(data)
    store.put("index", name, data)
    return name


def read_index_head(store: Store, name: str, size_bytes: int = 0) -> IndexHead:
    """Whose packs an index object describes; DamageError, UnknownFormatError.

    size_bytes: of the object; then so much of it is read as saves another request.
    """
    size = max(_HEAD.size, min(size_bytes, _BEGINNING_BYTES))
    return index_head(name, store.get("index", name, 0, size))


def index_head(name: str, beginning: bytes) -> IndexHead:
    """Whose packs it describes, by its first bytes or all of them."""
    raw = beginning[: _HEAD.size]
    with reading(f"index {name}"):
        magic, version, owner, first_size = _HEAD.unpack(raw)
    if magic != _MAGIC:
        raise DamageError(f"index {name} does not begin as indexes do; run repair")
    if version != _VERSION:
        raise UnknownFormatError(f"index {name} has version {version}; update strongroom")
    return IndexHead(raw, owner, first_size, beginning)


def read_index_heads(
    store: Store, sizes: Mapping[str, int]
) -> Iterator[tuple[str, IndexHead | Exception]]:
    """The heads of index objects, in order, or why one cannot be read. sizes: by name."""
    # Most of many objects may be those of other clients: near, the head is enough.
    is_distant = most_together(store) > 1
    return read_each(
        store, list(sizes), lambda name: read_index_head(store, name, is_distant * sizes[name])
    )


def read_index_object(
    store: Store,
    key: Key,
    name: str,
    *,
    chunks: bool,
    head: IndexHead | None = None,
    selection: BlockSelection | None = None,
) -> IndexObject:
    """One index object, its second part only with `chunks`; DamageError when it is not sound.

    head: if it was read already. selection: the blocks that its packs have, None for all.
    KeyRightError where the key is of another client.
    """
    with reading(f"index {name}"):
        return _read_index_object(store, key, name, chunks, head, selection)


def _read_index_object(
    store: Store,
    key: Key,
    name: str,
    chunks: bool,
    head: IndexHead | None,
    selection: BlockSelection | None,
) -> IndexObject:
    found = _read_columns(store, key, name, chunks, head)
    if selection is not None:
        found = selected(found, selection)
    packs = found.packs
    parts = split_columns(found.columns, packs.block_counts)
    footers = (
        PackFooter(found.owner, *one)
        for one in zip(packs.pack_ids, packs.kinds, packs.sizes, parts, strict=True)
    )
    return IndexObject(name, found.owner, packs.superseded, tuple(footers))


def selected(found: IndexColumns, selection: BlockSelection) -> IndexColumns:
    """An index object with all its packs, and of their blocks those that are selected."""
    kept = selection.rows(found.packs, found.columns)
    sums = np.zeros(len(kept) + 1, np.int64)
    np.cumsum(kept, out=sums[1:])
    ends = np.cumsum(np.array(found.packs.block_counts, np.int64))
    counts = np.diff(sums[ends], prepend=0).tolist()
    packs = found.packs._replace(block_counts=counts)
    return found._replace(packs=packs, columns=only_blocks(found.columns, kept))


def read_index_columns(
    store: Store, key: Key, name: str, *, chunks: bool, head: IndexHead | None = None
) -> IndexColumns:
    """`read_index_object`, without a footer for each pack."""
    with reading(f"index {name}"):
        return _read_columns(store, key, name, chunks, head)


def _read_columns(
    store: Store, key: Key, name: str, chunks: bool, head: IndexHead | None
) -> IndexColumns:
    if head is None and chunks:
        # All of it by one request.
        head = index_head(name, store.get("index", name))
        is_whole = True
    else:
        head, is_whole = head or read_index_head(store, name), False
    owner, first_size = head.owner, head.first_size
    second_at = first_size + (SIGNATURE_SIZE if owner == SHARED else 0)
    if is_whole:
        sealed = memoryview(head.beginning)[_HEAD.size :]
    elif not chunks and len(head.beginning) >= _HEAD.size + second_at:
        sealed = memoryview(head.beginning)[_HEAD.size : _HEAD.size + second_at]
    else:
        sealed = memoryview(store.get("index", name, _HEAD.size, None if chunks else second_at))
    first, signature, second = sealed[:first_size], sealed[first_size:second_at], sealed[second_at:]
    if owner == SHARED and not is_signed(
        key.verify_key, signature, _SIGNED_PURPOSE + head.raw + bytes(first)
    ):
        raise DamageError(f"index {name} is for all clients, but the appliance did not sign it")
    packs = _decode_packs(name, memoryview(_open(key, name, owner, _LABEL, first)))
    columns = without_chunks(packs.head)
    if chunks:
        if blake3(second).digest() != packs.second_digest:
            raise DamageError(f"index {name} has another second part than it says; run repair")
        tail = memoryview(_open(key, name, owner, _CHUNKS_LABEL, second))
        columns = decode_tail(packs.head, tail)
    return IndexColumns(name, owner, packs, columns)


def first_part_key(store: Store, key: Key, name: str) -> bytes:
    """The key that opens the first part of one index object and nothing else."""
    head = read_index_head(store, name)
    prefix = object_prefix(store.get("index", name, _HEAD.size, PREFIX_SIZE))
    return key.index_object_key(name, head.owner, prefix, _LABEL)


def join_columns(parts: Sequence[BlockColumns]) -> BlockColumns:
    """The columns of all parts, one after the other."""
    return BlockColumns(
        **{
            field: b"".join([getattr(part, field) for part in parts])
            for field in BlockColumns.__struct_fields__
        }
    )


def split_columns(columns: BlockColumns, block_counts: Sequence[int]) -> list[BlockColumns]:
    """The inverse of `join_columns`; of columns without chunks the parts have none either."""
    first_chunks = chunk_starts(columns.chunk_counts).tolist()
    first_dead = dead_starts(columns).tolist()
    parts = []
    first = 0
    for count in block_counts:
        last = first + count
        chunks = slice(first_chunks[first], first_chunks[last])
        parts.append(
            BlockColumns(
                block_ids=columns.block_ids[first * BLOCK_ID_SIZE : last * BLOCK_ID_SIZE],
                codecs=columns.codecs[first:last],
                stored_lengths=columns.stored_lengths[first * 4 : last * 4],
                raw_lengths=columns.raw_lengths[first * 4 : last * 4],
                chunk_counts=columns.chunk_counts[first * 2 : last * 2],
                flags=columns.flags[first:last],
                chunk_ids=columns.chunk_ids[
                    chunks.start * CHUNK_ID_SIZE : chunks.stop * CHUNK_ID_SIZE
                ],
                chunk_lengths=columns.chunk_lengths[chunks.start * 4 : chunks.stop * 4],
                dead=columns.dead[first_dead[first] : first_dead[last]],
            )
        )
        first = last
    return parts


def _open(key: Key, name: str, owner: bytes, label: bytes, sealed: memoryview) -> bytes:
    one_key = key.index_object_key(name, owner, object_prefix(sealed), label)
    return open_with_object_key(one_key, label, sealed)


def _decode_packs(name: str, text: memoryview) -> IndexedPacks:
    if len(text) < _COUNTS.size:
        raise DamageError(f"index {name} is cut off; run repair")
    second_digest, pack_count, superseded_count, packed_size = _COUNTS.unpack_from(text)
    ids_at = _COUNTS.size + superseded_count * OBJECT_NAME_SIZE
    packed_at = ids_at + pack_count * OBJECT_NAME_SIZE
    head_at = packed_at + packed_size
    if head_at > len(text):
        raise DamageError(f"index {name} is cut off: {pack_count} packs claimed; run repair")
    rows = unpack(text[packed_at:head_at], pack_count * _PACK_ROW_SIZE)
    head = decode_head(text[head_at:])
    block_counts = np.frombuffer(rows[pack_count : pack_count * 5], "<u4")
    if int(block_counts.sum(dtype=np.int64)) != len(head.codecs):
        raise DamageError(f"index {name} has packs with another number of blocks; run repair")
    return IndexedPacks(
        second_digest=second_digest,
        superseded=tuple(item.hex() for item in _names(text[_COUNTS.size : ids_at])),
        pack_ids=_names(text[ids_at:packed_at]),
        kinds=rows[:pack_count],
        block_counts=block_counts.tolist(),
        sizes=np.frombuffer(rows[pack_count * 5 :], "<u8").tolist(),
        head=head,
    )


def _names(joined: memoryview) -> list[bytes]:
    size = OBJECT_NAME_SIZE
    return [bytes(joined[at : at + size]) for at in range(0, len(joined), size)]
