"""Listing pages: rows of a snapshot, packed into columns.

A page holds 1 to MAX_PAGE_ROWS rows of one or more directories in listing order. Equal rows
give equal bytes, however they were sliced, so an unchanged page is a chunk that the repository
has already. A page is not compressed here; the block it is stored in is.

Layout: magic, row count u32, directory count u32, signature size u8, length u8 and text of the
signature's name, then sections in a fixed order (docs/design/object-layouts.md). Decoding trusts
nothing: counts are bounded before anything is allocated, names hold no slash and no NUL and are
in order, row and table numbers are in range. Decoded Rows hold the very bytes the scanner made.
"""

from __future__ import annotations

import struct
from array import array
from operator import lt
from typing import Final, NamedTuple

import numpy as np

from strongroom.base.clock import SECOND_NS
from strongroom.base.decoding import reading
from strongroom.base.errors import DamageError
from strongroom.engine.content.digests import BLOCK_ID_SIZE
from strongroom.engine.repository.listing.columns import (
    Integers,
    SectionReader,
    SectionWriter,
    add_texts,
    take_texts,
)
from strongroom.engine.repository.listing.details import MAX_PARTS, add_details, take_details
from strongroom.engine.rows.rows import (
    COLUMN_COUNT,
    CTIME_NS,
    DEVICE,
    GID,
    LINK_COUNT,
    MODE,
    MTIME_NS,
    RDEV,
    ROW_BYTES,
    SIZE,
    UID,
    Rows,
    join_rows,
)
from strongroom.engine.rows.views import path_key

# The stat columns of a listing page.
#
# Times are split into seconds and nanoseconds, since whole seconds are common; ctime is stored
# as its difference from mtime where that is zero more often than its difference from the row
# before.

_FEW_VALUES: Final = (MODE, UID, GID, DEVICE, RDEV)
# What the system calls that take these numbers know.
_BOUNDS: Final = {
    MODE: 0xFFFF,
    UID: 0xFFFFFFFF,
    GID: 0xFFFFFFFF,
    SIZE: (1 << 63) - 1,
    LINK_COUNT: (1 << 63) - 1,
    RDEV: (1 << 63) - 1,
}
_OWN, _DISTANCE = b"\0", b"\1"


def add_stats(writer: SectionWriter, stats: bytes) -> None:
    """Append the columns of `stats` (int64, row major)."""
    row_count = len(stats) // ROW_BYTES
    rows = np.frombuffer(stats, "<i8").reshape(row_count, COLUMN_COUNT)
    columns = np.ascontiguousarray(rows.T)
    for number, column in enumerate(columns):
        if number == MTIME_NS:
            _add_times(writer, column)
        elif number == CTIME_NS:
            distance = column - columns[MTIME_NS]
            steps = int(np.count_nonzero(column[1:] != column[:-1]))
            if int(np.count_nonzero(distance)) <= steps:
                writer.add(_DISTANCE)
                _add_times(writer, distance)
            else:
                writer.add(_OWN)
                _add_times(writer, column)
        else:
            writer.add_integers(column, table=number in _FEW_VALUES)


def take_stats(reader: SectionReader, row_count: int) -> bytes:
    """The stat columns of `row_count` rows, as the scanner packs them. Raises DamageError."""
    columns = np.empty((COLUMN_COUNT, row_count), "<i8")
    for number, column in enumerate(columns):
        if number == MTIME_NS:
            column[:] = _take_times(reader, row_count)
        elif number == CTIME_NS:
            origin = reader.take()
            if origin not in (_OWN, _DISTANCE):
                raise DamageError("listing page counts ctime from something unknown")
            times = _take_times(reader, row_count)
            column[:] = times + columns[MTIME_NS] if origin == _DISTANCE else times
        else:
            column[:] = reader.take_integers(row_count)
    for number, greatest in _BOUNDS.items():
        column = columns[number]
        if int(column.min()) < 0 or int(column.max()) > greatest:
            raise DamageError("listing page has a row with an impossible mode, owner or size")
    return columns.T.tobytes()


def _add_times(writer: SectionWriter, times_ns: Integers) -> None:
    seconds = times_ns // SECOND_NS
    writer.add_integers(seconds, table=True)
    writer.add_integers(times_ns - seconds * SECOND_NS, table=True)


def _take_times(reader: SectionReader, row_count: int) -> Integers:
    seconds = reader.take_integers(row_count)
    return seconds * SECOND_NS + reader.take_integers(row_count)


MAX_PAGE_ROWS: Final = 16384
_MAGIC: Final = b"SRL1"
_HEAD: Final = struct.Struct("<4sIIBB")
_MAX_SIGNATURE_BYTES: Final = 64
_MAX_SIGNATURE_NAME: Final = 16


def page_key(directory: bytes, name: bytes) -> tuple[bytes, bytes]:
    """Sorts rows in listing order."""
    return path_key(directory), name


def encode_page(groups: list[Rows]) -> bytes:
    """The page of `groups`, which are in listing order; neighbours of one directory are joined.

    Rows without signatures get zeros when others of the page have them. Raises ValueError for
    no rows, more than MAX_PAGE_ROWS, or signatures of several names.
    """
    groups = _joined(groups)
    row_count = sum(rows.row_count for rows in groups)
    if not 0 < row_count <= MAX_PAGE_ROWS:
        raise ValueError(f"a listing page can not hold {row_count} rows")
    names = {rows.signature_name for rows in groups}
    if len(names) > 1:
        raise ValueError(f"signatures of one page have several names: {sorted(names)}")
    signature_name = names.pop().encode("ascii")
    signature_bytes = max(rows.signature_bytes for rows in groups)
    counts = np.fromiter((rows.row_count for rows in groups), np.int64, len(groups))
    starts = np.cumsum(counts) - counts
    writer = SectionWriter()
    directories = b"\0".join([rows.directory for rows in groups])
    add_texts(writer, directories, len(groups), np.zeros(1, np.int64))
    writer.add_integers(counts)
    add_texts(writer, b"\0".join([rows.names for rows in groups]), row_count, starts)
    add_stats(writer, b"".join([rows.stats for rows in groups]))
    add_details(writer, groups, starts.tolist())
    zeros = bytes(signature_bytes)
    writer.add(b"".join([rows.signatures or zeros * rows.row_count for rows in groups]))
    head = _HEAD.pack(_MAGIC, row_count, len(groups), signature_bytes, len(signature_name))
    return head + signature_name + writer.joined()


class PageHead(NamedTuple):
    """The head of a page; counts are within bounds."""

    row_count: int
    group_count: int
    signature_bytes: int
    signature_name: str


def open_page(data: bytes) -> tuple[PageHead, SectionReader]:
    """The head of a page, and a reader at its first section. Raises DamageError."""
    if len(data) < _HEAD.size:
        raise DamageError("listing page is shorter than its head")
    magic, row_count, group_count, signature_bytes, name_length = _HEAD.unpack_from(data)
    if magic != _MAGIC:
        raise DamageError("not a listing page of a version this program reads")
    if (
        not 0 < group_count <= row_count <= MAX_PAGE_ROWS
        or signature_bytes > _MAX_SIGNATURE_BYTES
        or name_length > _MAX_SIGNATURE_NAME
    ):
        raise DamageError(f"listing page announces {row_count} rows in {group_count} directories")
    offset = _HEAD.size + name_length
    signature_name = data[_HEAD.size : offset]
    if not signature_name.isascii():
        raise DamageError("listing page has a signature name that is not one")
    head = PageHead(row_count, group_count, signature_bytes, signature_name.decode("ascii"))
    return head, SectionReader(data, offset)


def decode_page(data: bytes, *, takes_any_xattrs: bool = False) -> list[Rows]:
    """The rows of a page, one Rows a directory. Raises DamageError.

    takes_any_xattrs: the caller copes with extended attributes that `decode_xattrs` rejects.
    """
    with reading("a listing page"):
        return _decode_page(data, takes_any_xattrs=takes_any_xattrs)


def _decode_page(data: bytes, *, takes_any_xattrs: bool) -> list[Rows]:
    head, reader = open_page(data)
    row_count, group_count, signature_bytes, signature_name = head
    directories = take_texts(reader, group_count, np.zeros(1, np.int64))
    counts = reader.take_counts(group_count, row_count)
    if int(counts.min()) < 1 or int(counts.sum()) != row_count:
        raise DamageError("rows of the directories of a listing page do not add up")
    starts = np.cumsum(counts) - counts
    names = take_texts(reader, row_count, starts)
    stats = take_stats(reader, row_count)
    groups = _assemble(directories, counts, names, stats, signature_name)
    take_details(reader, groups, starts, takes_any_xattrs=takes_any_xattrs)
    _take_signatures(reader.take(), groups, signature_bytes)
    reader.end()
    return groups


def _joined(groups: list[Rows]) -> list[Rows]:
    runs: list[list[Rows]] = []
    for rows in groups:
        if not rows.row_count:
            continue
        if runs and runs[-1][0].directory == rows.directory:
            runs[-1].append(rows)
        else:
            runs.append([rows])
    return [join_rows(run) for run in runs]


def _assemble(
    directories: list[bytes],
    counts: Integers,
    names: list[bytes],
    stats: bytes,
    signature_name: str,
) -> list[Rows]:
    groups: list[Rows] = []
    start = 0
    key_before = None
    for directory, count in zip(directories, counts.tolist(), strict=True):
        end = start + count
        mine = names[start:end]
        key = path_key(directory)
        if key_before is not None and key <= key_before:
            raise DamageError("directories of a listing page are out of order")
        if b"\0" in directory or not _is_path(directory):
            raise DamageError("listing page has a directory whose path is not well formed")
        joined = b"\0".join(mine)
        if not _are_names(joined, mine, is_root=not directory):
            raise DamageError("listing page has names that are not well formed or out of order")
        groups.append(
            Rows(
                directory=directory,
                names=joined,
                row_count=count,
                stats=stats[start * ROW_BYTES : end * ROW_BYTES],
                part_counts=array("I"),
                signature_name=signature_name,
            )
        )
        start = end
        key_before = key
    return groups


def _is_path(path: bytes) -> bool:
    enclosed = b"/" + path + b"/"
    return not path or not (b"//" in enclosed or b"/./" in enclosed or b"/../" in enclosed)


def _are_names(joined: bytes, names: list[bytes], *, is_root: bool) -> bool:
    """Whether `names` are valid in a directory, in this order; the root has a row named b""."""
    if joined.count(b"\0") != len(names) - 1 or b"/" in joined:
        return False
    if not names[0] and not is_root:
        return False
    enclosed = b"\0" + joined + b"\0"
    if b"\0.\0" in enclosed or b"\0..\0" in enclosed:
        return False
    return all(map(lt, names, names[1:]))


def _take_signatures(data: bytes, groups: list[Rows], signature_bytes: int) -> None:
    if len(data) != signature_bytes * sum(rows.row_count for rows in groups):
        raise DamageError("signatures of a listing page do not fit its rows")
    if not signature_bytes:
        return
    start = 0
    for rows in groups:
        end = start + signature_bytes * rows.row_count
        rows.signatures = data[start:end]
        start = end


# The content references of a listing page, without its rows.
#
# Prune needs nothing else of a page, and decoding only four of its sections is some twenty times as
# fast as decoding the rows. It does not verify the sections it skips; check decodes whole pages.

# Sections before them: directories (3), rows of each (1), names (3) and stat columns (13).
_SECTIONS_BEFORE: Final = 20
_MAX_SLOT: Final = (1 << 16) - 1


class PageParts(NamedTuple):
    """References of a page, each (block, slot) once.

    block_ids: n * 24 bytes. places: for each reference the number of its block among them.
    """

    block_ids: bytes
    places: Integers
    slots: Integers


def decode_parts(data: bytes) -> PageParts:
    """The references of a page. Raises DamageError."""
    with reading("a listing page"):
        return _decode_parts(data)


def _decode_parts(data: bytes) -> PageParts:
    head, reader = open_page(data)
    for _ in range(_SECTIONS_BEFORE):
        reader.take()
    total = int(reader.take_counts(head.row_count, MAX_PARTS).sum())
    if total > MAX_PARTS:
        raise DamageError(f"listing page claims {total} parts")
    block_ids = reader.take()
    places = reader.take_integers(total)
    slots = reader.take_counts(total, _MAX_SLOT)
    if len(block_ids) % BLOCK_ID_SIZE:
        raise DamageError("listing page holds a part of a block id")
    count = len(block_ids) // BLOCK_ID_SIZE
    if total and (int(places.min()) < 0 or int(places.max()) >= count):
        raise DamageError("listing page refers to a block beyond the end of its table")
    references = np.unique(places << 16 | slots)
    return PageParts(block_ids, references >> 16, references & _MAX_SLOT)
