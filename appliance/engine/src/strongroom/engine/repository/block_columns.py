"""The table of blocks and their chunks, as columns: what pack footers and index objects hold.

    head: block count u32 | chunk count u32 | dead size u32 | zstd size u32 | block ids (24 each)
          | zstd of: codecs u8, stored lengths u32, raw lengths u32, chunk counts u16, flags u8
    tail: zstd size u32 | chunk ids (24 each) | zstd of: chunk lengths u32, dead bitmaps

Each column is complete before the next begins; integers are little endian. Blocks are contiguous
in a pack, so offsets are sums of stored lengths. A *thinned* block has lost chunks
that no snapshot wanted: its bitmap (one bit a chunk, the first in the lowest bit, padded to bytes)
says which; they keep their slot, id and length, and the raw length counts only the others. The ids
of an *offered* block and of its chunks are under the common keys (repository.keys.owners).
"""

from __future__ import annotations

import struct
from typing import NoReturn

import msgspec
import numpy as np
import zstandard
from numpy.typing import NDArray

from strongroom.base.errors import DamageError
from strongroom.engine.content.digests import BLOCK_ID_SIZE, CHUNK_ID_SIZE

# A block of more raw bytes is never written, nor allocated when stored data claims one.
RAW_LENGTH_LIMIT = 256 << 20
CHUNKS_LIMIT = 0xFFFF
# Flags of a block.
THINNED = 1
OFFERED = 2

_HEAD = struct.Struct("<IIII")
_TAIL = struct.Struct("<I")
# Bytes of a block's row and of a chunk's row in the compressed columns.
_BLOCK_ROW_SIZE = 1 + 4 + 4 + 2 + 1
_CHUNK_ROW_SIZE = 4


class BlockColumns(msgspec.Struct, frozen=True):
    """Columns of the blocks of one or more packs, in the order in which they are stored."""

    block_ids: bytes
    codecs: bytes
    stored_lengths: bytes
    raw_lengths: bytes
    chunk_counts: bytes
    flags: bytes
    chunk_ids: bytes
    chunk_lengths: bytes
    dead: bytes

    @property
    def block_count(self) -> int:
        """Number of blocks."""
        return len(self.codecs)

    @property
    def chunk_count(self) -> int:
        """Number of chunks, dead ones included."""
        return len(self.chunk_lengths) // 4


def encode_head(columns: BlockColumns) -> bytes:
    """The part with the locations of blocks."""
    packed = zstandard.compress(
        b"".join(
            (
                columns.codecs,
                columns.stored_lengths,
                columns.raw_lengths,
                columns.chunk_counts,
                columns.flags,
            )
        ),
        1,
    )
    counts = (columns.block_count, columns.chunk_count, len(columns.dead), len(packed))
    return b"".join((_HEAD.pack(*counts), columns.block_ids, packed))


def encode_tail(columns: BlockColumns) -> bytes:
    """The part with the chunks of blocks."""
    packed = zstandard.compress(columns.chunk_lengths + columns.dead, 1)
    return b"".join((_TAIL.pack(len(packed)), columns.chunk_ids, packed))


class BlockTableHead(msgspec.Struct, frozen=True):
    """A decoded head: numpy columns, and what is needed to decode the tail."""

    block_ids: bytes
    codecs: bytes
    stored_lengths: bytes
    raw_lengths: bytes
    chunk_counts: bytes
    flags: bytes
    chunk_count: int
    dead_size: int
    encoded_size: int


def decode_head(encoded: memoryview) -> BlockTableHead:
    """The head at the start of `encoded`; DamageError when it is not sound."""
    if len(encoded) < _HEAD.size:
        _fail("is cut off")
    block_count, chunk_count, dead_size, packed_size = _HEAD.unpack_from(encoded)
    packed_at = _HEAD.size + block_count * BLOCK_ID_SIZE
    encoded_size = packed_at + packed_size
    if encoded_size > len(encoded):
        _fail(f"is cut off: {block_count} blocks claimed")
    if chunk_count > block_count * CHUNKS_LIMIT or dead_size > chunk_count + block_count:
        _fail("has impossible counts")
    row = unpack(encoded[packed_at:encoded_size], block_count * _BLOCK_ROW_SIZE)
    ends = [block_count * width for width in (1, 5, 9, 11, 12)]
    head = BlockTableHead(
        block_ids=bytes(encoded[_HEAD.size : packed_at]),
        codecs=row[: ends[0]],
        stored_lengths=row[ends[0] : ends[1]],
        raw_lengths=row[ends[1] : ends[2]],
        chunk_counts=row[ends[2] : ends[3]],
        flags=row[ends[3] :],
        chunk_count=chunk_count,
        dead_size=dead_size,
        encoded_size=encoded_size,
    )
    _check_head(head)
    return head


def decode_tail(head: BlockTableHead, encoded: memoryview) -> BlockColumns:
    """Head and tail together; DamageError when they do not fit each other."""
    if len(encoded) < _TAIL.size:
        _fail("is cut off before its chunks")
    (packed_size,) = _TAIL.unpack_from(encoded)
    ids_end = _TAIL.size + head.chunk_count * CHUNK_ID_SIZE
    if ids_end + packed_size != len(encoded):
        _fail(f"has another length than its {head.chunk_count} chunks need")
    lengths_size = head.chunk_count * _CHUNK_ROW_SIZE
    rest = unpack(encoded[ids_end:], lengths_size + head.dead_size)
    columns = BlockColumns(
        block_ids=head.block_ids,
        codecs=head.codecs,
        stored_lengths=head.stored_lengths,
        raw_lengths=head.raw_lengths,
        chunk_counts=head.chunk_counts,
        flags=head.flags,
        chunk_ids=bytes(encoded[_TAIL.size : ids_end]),
        chunk_lengths=rest[:lengths_size],
        dead=rest[lengths_size:],
    )
    _check_tail(columns)
    return columns


def without_chunks(head: BlockTableHead) -> BlockColumns:
    """Columns with the locations of blocks, but without their chunks."""
    return BlockColumns(
        block_ids=head.block_ids,
        codecs=head.codecs,
        stored_lengths=head.stored_lengths,
        raw_lengths=head.raw_lengths,
        chunk_counts=head.chunk_counts,
        flags=head.flags,
        chunk_ids=b"",
        chunk_lengths=b"",
        dead=b"",
    )


def chunk_starts(chunk_counts: bytes) -> NDArray[np.int64]:
    """Row of each block's first chunk, and the number of chunks at the end."""
    counts = np.frombuffer(chunk_counts, "<u2")
    starts = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=starts[1:])
    return starts


def dead_starts(columns: BlockColumns | BlockTableHead) -> NDArray[np.int64]:
    """Where each block's bitmap begins in the dead column, and its size at the end."""
    counts = np.frombuffer(columns.chunk_counts, "<u2").astype(np.int64)
    thinned = np.frombuffer(columns.flags, np.uint8) & THINNED
    starts = np.zeros(len(counts) + 1, np.int64)
    np.cumsum((counts + 7) // 8 * thinned, out=starts[1:])
    return starts


def unpack(packed: memoryview, raw_size: int) -> bytes:
    """A zstd frame of exactly `raw_size` bytes; DamageError otherwise, before allocating."""
    try:
        if zstandard.get_frame_parameters(packed).content_size != raw_size:
            _fail("has columns of another size than its counts need")
        raw = zstandard.ZstdDecompressor().decompress(packed, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise DamageError(f"a table of blocks does not decompress ({error}); run check") from error
    if len(raw) != raw_size:
        _fail("has columns of another size than its counts need")
    return raw


def _check_head(head: BlockTableHead) -> None:
    raw_lengths = np.frombuffer(head.raw_lengths, "<u4")
    if len(raw_lengths) and int(raw_lengths.max()) > RAW_LENGTH_LIMIT:
        _fail(f"has a block of more than {RAW_LENGTH_LIMIT} bytes")
    if np.frombuffer(head.flags, np.uint8).max(initial=0) > THINNED | OFFERED:
        _fail("has a block of an unknown kind")
    if int(chunk_starts(head.chunk_counts)[-1]) != head.chunk_count:
        _fail("has blocks with another number of chunks in all")
    if int(dead_starts(head)[-1]) != head.dead_size:
        _fail("has thinned blocks with another number of chunks in all")


def _check_tail(columns: BlockColumns) -> None:
    lengths = np.frombuffer(columns.chunk_lengths, "<u4").astype(np.int64)
    lengths[dead_flags(columns)] = 0
    sums = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=sums[1:])
    live = np.diff(sums[chunk_starts(columns.chunk_counts)])
    if not np.array_equal(live, np.frombuffer(columns.raw_lengths, "<u4")):
        _fail("has a block whose chunks do not add up to its raw length")


def dead_flags(columns: BlockColumns) -> NDArray[np.bool_]:
    """One flag for each chunk: True where its bytes were dropped."""
    flags = np.zeros(columns.chunk_count, np.bool_)
    thinned = np.flatnonzero(np.frombuffer(columns.flags, np.uint8) & THINNED)
    if not len(thinned):
        return flags
    counts = np.frombuffer(columns.chunk_counts, "<u2").astype(np.int64)[thinned]
    within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    bits = np.repeat(dead_starts(columns)[thinned] * 8, counts) + within
    chunks = np.repeat(chunk_starts(columns.chunk_counts)[thinned], counts) + within
    bitmaps = np.frombuffer(columns.dead, np.uint8)
    flags[chunks] = np.unpackbits(bitmaps, bitorder="little")[bits]
    return flags


def _fail(what: str) -> NoReturn:
    raise DamageError(f"a table of blocks {what}; run repair to rebuild the index from packs")
