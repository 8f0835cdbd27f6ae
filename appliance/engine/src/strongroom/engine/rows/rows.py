"""Rows: the metadata of one directory, or of a slice of it, as a few flat buffers.

During a backup a row is never an object: names are one joined string, stat columns one int64
buffer, and fields that only some rows have (link targets, attributes, flags) are dictionaries
by row number. The scanner makes Rows, a listing page decodes to Rows with the
very same bytes, and `comparison_digest` is equal exactly when both sides are.
"""

from __future__ import annotations

import stat
from array import array
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, Final, TypeAlias, cast

import msgspec
from blake3 import blake3

from strongroom.base.decoding import reading

Buffer: TypeAlias = "bytes | bytearray | memoryview | array[int]"

STAT_COLUMNS: Final = (
    "st_mode",
    "st_uid",
    "st_gid",
    "st_size",
    "st_mtime_ns",
    "st_ctime_ns",
    "st_ino",
    "st_dev",
    "st_nlink",
    "st_rdev",
)
COLUMN_COUNT: Final = len(STAT_COLUMNS)
ROW_BYTES: Final = 8 * COLUMN_COUNT
MODE, UID, GID, SIZE, MTIME_NS, CTIME_NS, INODE, DEVICE, LINK_COUNT, RDEV = range(COLUMN_COUNT)

WHOLE: Final = 0
UNREADABLE: Final = 1
CHANGED: Final = 2

BLOCK_ID_BYTES: Final = 24


class Rows(msgspec.Struct):
    """Rows of one directory, sorted by name. Dictionaries are keyed by row number.

    names: joined by NUL. stats: int64 little endian, row major, COLUMN_COUNT a row.
    targets: of symbolic links. xattrs: as `attributes.encode_xattrs` makes them. flags: chattr
    flags when not 0. states: UNREADABLE, or CHANGED (read, but perhaps inconsistent, or not
    with all attributes); rows not in it are WHOLE.
    extents: (offset, length) of the data of sparse files; their content is the extents joined.
    part_counts: content references a row, array('I'); part_blocks: 24 bytes a reference;
    part_slots: array('H'). signatures: one of equal size a row, zeros for rows without.
    page_ends: what `page_builder.page_ends` gives for the names, where somebody has asked it.
    """

    directory: bytes
    names: bytes
    row_count: int
    stats: bytes
    part_counts: array[int]
    targets: dict[int, bytes] = {}
    xattrs: dict[int, bytes] = {}
    flags: dict[int, int] = {}
    states: dict[int, int] = {}
    extents: dict[int, Sequence[tuple[int, int]]] = {}
    part_blocks: bytes = b""
    part_slots: array[int] = msgspec.field(default_factory=lambda: array("H"))
    signatures: bytes = b""
    signature_name: str = "none"
    page_ends: Sequence[int] | None = None

    def name_list(self) -> list[bytes]:
        """The names, in order."""
        return self.names.split(b"\0") if self.row_count else []

    @property
    def signature_bytes(self) -> int:
        """Size of one signature; 0 without."""
        return len(self.signatures) // self.row_count if self.row_count else 0


def new_rows(directory: bytes, names: Sequence[bytes], stats: array[int]) -> Rows:
    """Rows without any content yet; `stats` as `directory.stat_rows` returns it."""
    row_count = len(names)
    return Rows(
        directory, b"\0".join(names), row_count, stats.tobytes(), zero_array("I", row_count)
    )


def comparison_digest(names: bytes, stats: Buffer) -> bytes:
    """16 bytes, equal when joined names and stat columns are; dev and nlink count here.

    A changed device number merely costs the slower `merge_unchanged`.
    """
    digest = blake3(len(names).to_bytes(8, "little"))
    digest.update(names)
    digest.update(memoryview(stats).cast("B"))
    return digest.digest(length=16)


def part_starts(rows: Rows) -> array[int]:
    """Number of the first content reference of each row, and of all at the end (row_count + 1)."""
    starts = array("Q", [0])
    total = 0
    for count in rows.part_counts:
        total += count
        starts.append(total)
    return starts


def slice_rows(rows: Rows, start: int, stop: int) -> Rows:
    """Rows `start` to `stop` as Rows of their own (0 <= start <= stop <= row_count)."""
    return split_rows(rows, [start, stop])[1]


def split_rows(rows: Rows, cuts: Sequence[int]) -> list[Rows]:
    """Split before the rows `cuts` (ascending); gives one more piece than there are cuts."""
    if not cuts:
        return [rows]
    names = rows.name_list()
    starts = part_starts(rows)
    bounds = [0, *cuts, rows.row_count]
    return [_slice(rows, names, starts, start, stop) for start, stop in pairwise(bounds)]


def _slice(rows: Rows, names: list[bytes], starts: array[int], start: int, stop: int) -> Rows:
    if start == 0 and stop == rows.row_count:
        return rows
    first, end = starts[start], starts[stop]
    size = rows.signature_bytes
    return Rows(
        directory=rows.directory,
        names=b"\0".join(names[start:stop]),
        row_count=stop - start,
        stats=rows.stats[start * ROW_BYTES : stop * ROW_BYTES],
        part_counts=rows.part_counts[start:stop],
        targets=_slice_sparse(rows.targets, start, stop),
        xattrs=_slice_sparse(rows.xattrs, start, stop),
        flags=_slice_sparse(rows.flags, start, stop),
        states=_slice_sparse(rows.states, start, stop),
        extents=_slice_sparse(rows.extents, start, stop),
        part_blocks=rows.part_blocks[first * BLOCK_ID_BYTES : end * BLOCK_ID_BYTES],
        part_slots=rows.part_slots[first:end],
        signatures=rows.signatures[start * size : stop * size],
        signature_name=rows.signature_name,
    )


def _slice_sparse(values: dict[int, Any], start: int, stop: int) -> dict[int, Any]:
    if len(values) > stop - start:
        return {row - start: values[row] for row in range(start, stop) if row in values}
    return {row - start: value for row, value in values.items() if start <= row < stop}


def join_rows(slices: Sequence[Rows]) -> Rows:
    """Slices of one directory, in order, as one. At least one; all with one signature name.

    Slices without signatures get zeros when others have them.
    """
    if len(slices) == 1:
        return slices[0]
    filled = [piece for piece in slices if piece.row_count] or slices[:1]
    zeros = bytes(max(piece.signature_bytes for piece in filled))
    joined = Rows(
        directory=filled[0].directory,
        names=b"\0".join([piece.names for piece in filled]),
        row_count=sum(piece.row_count for piece in filled),
        stats=b"".join([piece.stats for piece in filled]),
        part_counts=array("I"),
        part_blocks=b"".join([piece.part_blocks for piece in filled]),
        signatures=b"".join([piece.signatures or zeros * piece.row_count for piece in filled]),
        signature_name=filled[0].signature_name,
    )
    offset = 0
    for piece in filled:
        joined.part_counts.extend(piece.part_counts)
        joined.part_slots.extend(piece.part_slots)
        _shift_into(joined.targets, piece.targets, offset)
        _shift_into(joined.xattrs, piece.xattrs, offset)
        _shift_into(joined.flags, piece.flags, offset)
        _shift_into(joined.states, piece.states, offset)
        _shift_into(joined.extents, piece.extents, offset)
        offset += piece.row_count
    return joined


def _shift_into(mine: dict[int, Any], theirs: dict[int, Any], offset: int) -> None:
    for row, value in theirs.items():
        mine[row + offset] = value


_Wire = tuple[
    bytes,
    bytes,
    int,
    bytes,
    bytes,
    dict[int, bytes],
    dict[int, bytes],
    dict[int, int],
    dict[int, int],
    dict[int, list[tuple[int, int]]],
    bytes,
    bytes,
    bytes,
    str,
]
# Extents of a decoded page may be columns.
_encoder = msgspec.msgpack.Encoder(enc_hook=list)
_decoder = msgspec.msgpack.Decoder(_Wire)
_decoder_of_many = msgspec.msgpack.Decoder(list[_Wire])


def encode_rows(rows: Rows) -> bytes:
    """For sending between processes of one machine; not a storage format."""
    return _encoder.encode(_wire(rows))


def decode_rows(data: Buffer) -> Rows:
    """What `encode_rows` encoded. Raises DamageError when the bytes are invalid."""
    with reading("what a child process sent"):
        return _of_wire(_decoder.decode(data))


def encode_groups(groups: Iterable[Rows]) -> bytes:
    """`encode_rows` of rows of several directories, or slices of them."""
    return _encoder.encode(list(map(_wire, groups)))


def decode_groups(data: Buffer) -> list[Rows]:
    """What `encode_groups` encoded. Raises DamageError when the bytes are invalid."""
    with reading("what a child process sent"):
        return list(map(_of_wire, _decoder_of_many.decode(data)))


def _wire(rows: Rows) -> _Wire:
    return (
        rows.directory,
        rows.names,
        rows.row_count,
        rows.stats,
        rows.part_counts.tobytes(),
        rows.targets,
        rows.xattrs,
        rows.flags,
        rows.states,
        cast("dict[int, list[tuple[int, int]]]", rows.extents),
        rows.part_blocks,
        rows.part_slots.tobytes(),
        rows.signatures,
        rows.signature_name,
    )


def _of_wire(wire: _Wire) -> Rows:
    (
        directory, names, row_count, stats, counts, targets, xattrs, flags, states, extents,
        part_blocks, slots, signatures, signature_name,
    ) = wire  # fmt: skip
    sparse = cast("dict[int, Sequence[tuple[int, int]]]", extents)
    return Rows(
        directory, names, row_count, stats, array("I", counts), targets, xattrs, flags, states,
        sparse, part_blocks, array("H", slots), signatures, signature_name,
    )  # fmt: skip


def zero_array(typecode: str, count: int) -> array[int]:
    """`count` zeros of the array type `typecode`."""
    zero: array[int] = array(typecode, [0])
    return zero * count


KINDS: Final = {
    "file": stat.S_IFREG,
    "directory": stat.S_IFDIR,
    "symlink": stat.S_IFLNK,
    "fifo": stat.S_IFIFO,
    "character-device": stat.S_IFCHR,
    "block-device": stat.S_IFBLK,
}
STATE_NAMES: Final = {UNREADABLE: "unreadable", CHANGED: "changed"}
_NAMES: Final = {bits: name for name, bits in KINDS.items()}


def kind_name(mode: int) -> str:
    """`file`, `directory`, `symlink`, `fifo`, `character-device` or `block-device`."""
    return _NAMES.get(stat.S_IFMT(mode), "other")


def type_bits(kind: str) -> int:
    """The file type bits (S_IFMT) of a kind, 0 for `other`."""
    return KINDS.get(kind, 0)


# Sparse files may be so large that two of them exceed the 64 bits of a total in a snapshot.
LARGEST_BYTES: Final = (1 << 63) - 1


def bytes_together(sizes: Iterable[int]) -> int:
    """The sum of sizes, within the bounds; hostile rows may have negative ones."""
    return max(-LARGEST_BYTES, min(sum(sizes), LARGEST_BYTES))
