"""All but names and stat columns: content references, and fields that only some rows have.

Block ids go into a table in order of first use; rows whose files were batched together refer
to the same one. Equal sets of extended attributes are stored once. Rows that have a link target,
attributes, flags, a state or extents are named by number, ascending.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from io import BytesIO
from itertools import accumulate
from typing import Any, Final, overload

import numpy as np

from strongroom.base.errors import DamageError, UsageError
from strongroom.base.printable import printable
from strongroom.engine.repository.listing.columns import Integers, SectionReader, SectionWriter
from strongroom.engine.rows.block_runs import block_runs
from strongroom.engine.rows.rows import BLOCK_ID_BYTES, CHANGED, UNREADABLE, Rows
from strongroom.engine.scan.attributes import decode_xattrs


class ManyExtents(Sequence[tuple[int, int]]):
    """The data extents of a sparse file that has very many, 16 bytes each instead of a hundred.

    (offset, length) of each, from two columns; equal to a list of the same pairs.
    """

    __slots__ = ("_lengths", "_offsets")

    def __init__(self, offsets: Integers, lengths: Integers) -> None:
        self._offsets = offsets
        self._lengths = lengths

    def __len__(self) -> int:
        return len(self._offsets)

    @overload
    def __getitem__(self, place: int) -> tuple[int, int]: ...

    @overload
    def __getitem__(self, place: slice) -> ManyExtents: ...

    def __getitem__(self, place: int | slice) -> tuple[int, int] | ManyExtents:
        if isinstance(place, slice):
            return ManyExtents(self._offsets[place], self._lengths[place])
        return int(self._offsets[place]), int(self._lengths[place])

    def __iter__(self) -> Iterator[tuple[int, int]]:
        # Views make each number when it is wanted, lists would make all of them.
        return zip(self._offsets.data, self._lengths.data, strict=True)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ManyExtents | list):
            return NotImplemented
        return len(self) == len(other) and all(
            mine == its for mine, its in zip(self, other, strict=True)
        )

    __hash__ = None  # type: ignore[assignment]


_MAX_FLAGS: Final = (1 << 32) - 1
# Of a page: a file of 16 TiB has so many. Without a bound a few kilobytes would take gigabytes.
MAX_PARTS: Final = 1 << 24
# Of a page: a backup that holds them as pairs would not have had room for more.
MAX_EXTENTS: Final = 1 << 24
# Of a file: more take much less room as columns.
_FEW_EXTENTS: Final = 1024
_PIECE_PARTS: Final = 1 << 16
_MAX_SLOT: Final = (1 << 16) - 1


def add_details(writer: SectionWriter, groups: list[Rows], starts: list[int]) -> None:
    """Append the sections of all but names and stat columns; `starts`: first row a group.

    Raises UsageError for more than a reader would take.
    """
    counts = b"".join([rows.part_counts for rows in groups])
    slots = b"".join([rows.part_slots for rows in groups])
    extent_count = sum(len(some) for rows in groups for some in rows.extents.values())
    if len(slots) // 2 > MAX_PARTS or extent_count > MAX_EXTENTS:
        raise UsageError(
            f"a file below /{printable(groups[0].directory)} has {len(slots) // 2} chunks and "
            f"{extent_count} data extents, and {MAX_PARTS} may be kept of each; exclude it"
        )
    writer.add_integers(np.frombuffer(counts, np.uint32).astype(np.int64))
    _add_blocks(writer, b"".join([rows.part_blocks for rows in groups]))
    writer.add_integers(np.frombuffer(slots, np.uint16).astype(np.int64))

    numbers, targets = _gather([rows.targets for rows in groups], starts)
    _add_row_numbers(writer, numbers)
    _add_texts_by_length(writer, targets)

    numbers, attributes = _gather([rows.xattrs for rows in groups], starts)
    _add_row_numbers(writer, numbers)
    sets: dict[bytes, int] = {}
    places = [sets.setdefault(encoded, len(sets)) for encoded in attributes]
    writer.add_integers(places)
    writer.add_integers([len(sets)])
    _add_texts_by_length(writer, list(sets))

    for by_group in ([rows.flags for rows in groups], [rows.states for rows in groups]):
        numbers, values = _gather(by_group, starts)
        _add_row_numbers(writer, numbers)
        writer.add_integers(values, table=True)

    numbers, extents = _gather([rows.extents for rows in groups], starts)
    _add_row_numbers(writer, numbers)
    writer.add_integers([len(some) for some in extents])
    writer.add_integers([offset for some in extents for offset, _ in some])
    writer.add_integers([length for some in extents for _, length in some])


def take_details(
    reader: SectionReader, groups: list[Rows], starts: Integers, *, takes_any_xattrs: bool
) -> None:
    """Read what `add_details` appended into `groups`. Raises DamageError.

    takes_any_xattrs: also extended attributes that are not well formed.
    """
    row_count = sum(rows.row_count for rows in groups)
    _take_parts(reader, groups, row_count)

    numbers = _take_row_numbers(reader, row_count)
    _spread(numbers, _take_texts_by_length(reader, len(numbers)), starts, groups, "targets")

    numbers = _take_row_numbers(reader, row_count)
    places = reader.take_counts(len(numbers), max(len(numbers) - 1, 0))
    set_count = int(reader.take_counts(1, len(numbers))[0])
    if len(numbers) and int(places.max()) >= set_count:
        raise DamageError("listing page refers to attributes beyond the end of their table")
    sets = _take_texts_by_length(reader, set_count)
    for encoded in () if takes_any_xattrs else sets:
        decode_xattrs(encoded)
    _spread(numbers, [sets[place] for place in places.tolist()], starts, groups, "xattrs")

    numbers = _take_row_numbers(reader, row_count)
    flags = reader.take_counts(len(numbers), _MAX_FLAGS)
    _spread(numbers, flags.tolist(), starts, groups, "flags")
    numbers = _take_row_numbers(reader, row_count)
    states = reader.take_counts(len(numbers), CHANGED)
    if np.any(states < UNREADABLE):
        raise DamageError("listing page names a whole row among the others")
    _spread(numbers, states.tolist(), starts, groups, "states")

    numbers = _take_row_numbers(reader, row_count)
    _spread(numbers, _take_extents(reader, len(numbers)), starts, groups, "extents")


def _add_blocks(writer: SectionWriter, ids: bytes) -> None:
    """The table of block ids, and the position in it for each reference."""
    run_starts = block_runs(ids)
    table: dict[bytes, int] = {}
    places = [
        table.setdefault(ids[start : start + BLOCK_ID_BYTES], len(table))
        for start in (run_starts * BLOCK_ID_BYTES).tolist()
    ]
    run_lengths = np.diff(np.append(run_starts, len(ids) // BLOCK_ID_BYTES))
    writer.add(b"".join(table))
    writer.add_integers(np.repeat(np.asarray(places, np.int64), run_lengths))


def _take_parts(reader: SectionReader, groups: list[Rows], row_count: int) -> None:
    counts = reader.take_counts(row_count, MAX_PARTS)
    total = int(counts.sum())
    if total > MAX_PARTS:
        raise DamageError(f"listing page claims {total} parts")
    table = reader.take()
    if len(table) % BLOCK_ID_BYTES:
        raise DamageError("listing page holds a part of a block id")
    found = reader.take_integers(total)
    ids = np.frombuffer(table, np.dtype((np.void, BLOCK_ID_BYTES)))
    if total and (int(found.min()) < 0 or int(found.max()) >= len(ids)):
        raise DamageError("listing page refers to a block beyond the end of its table")
    places = found.astype(np.uint32)
    del found
    slot_bytes = reader.take_counts(total, _MAX_SLOT).astype(np.uint16).tobytes()
    count_bytes = counts.astype(np.uint32).tobytes()
    if total <= _PIECE_PARTS:
        blocks = ids[places].tobytes()
    else:
        # At once it would take twice as much.
        joined = BytesIO()
        for first in range(0, total, _PIECE_PARTS):
            joined.write(ids[places[first : first + _PIECE_PARTS]].tobytes())
        blocks = joined.getvalue()
    row = part = 0
    part_ends = np.cumsum(counts).tolist()
    for rows in groups:
        row_end = row + rows.row_count
        part_end = part_ends[row_end - 1]
        rows.part_counts = array("I", count_bytes[4 * row : 4 * row_end])
        rows.part_slots = array("H", slot_bytes[2 * part : 2 * part_end])
        rows.part_blocks = blocks[BLOCK_ID_BYTES * part : BLOCK_ID_BYTES * part_end]
        row, part = row_end, part_end


def _take_extents(reader: SectionReader, count: int) -> list[Sequence[tuple[int, int]]]:
    counts = reader.take_counts(count, MAX_EXTENTS)
    total = int(counts.sum())
    if total > MAX_EXTENTS:
        raise DamageError(f"listing page claims {total} extents")
    offsets = reader.take_integers(total)
    lengths = reader.take_integers(total)
    if total and (int(offsets.min()) < 0 or int(lengths.min()) < 0):
        raise DamageError("listing page has a negative extent")
    found: list[Sequence[tuple[int, int]]] = []
    start = 0
    for size in counts.tolist():
        some = ManyExtents(offsets[start : start + size], lengths[start : start + size])
        found.append(some if size > _FEW_EXTENTS else list(some))
        start += size
    return found


def _gather(by_group: list[dict[int, Any]], starts: list[int]) -> tuple[list[int], list[Any]]:
    """Row numbers in the page and values, ascending."""
    numbers: list[int] = []
    values: list[Any] = []
    for mine, start in zip(by_group, starts, strict=True):
        # Most directories have none.
        if mine:
            for row in sorted(mine):
                numbers.append(start + row)
                values.append(mine[row])
    return numbers, values


def _add_row_numbers(writer: SectionWriter, numbers: list[int]) -> None:
    writer.add_integers([len(numbers)])
    writer.add_integers(numbers)


def _take_row_numbers(reader: SectionReader, row_count: int) -> Integers:
    count = int(reader.take_counts(1, row_count)[0])
    numbers = reader.take_counts(count, row_count - 1)
    if np.any(numbers[1:] <= numbers[:-1]):
        raise DamageError("row numbers in a listing page are out of order")
    return numbers


def _add_texts_by_length(writer: SectionWriter, texts: list[bytes]) -> None:
    writer.add_integers([len(text) for text in texts])
    writer.add(b"".join(texts))


def _take_texts_by_length(reader: SectionReader, count: int) -> list[bytes]:
    lengths = reader.take_integers(count)
    text = reader.take()
    if count and (int(lengths.min()) < 0 or int(lengths.max()) > len(text)):
        raise DamageError("lengths of texts in a listing page do not fit")
    if int(lengths.sum()) != len(text):
        raise DamageError("lengths of texts in a listing page do not add up")
    ends = list(accumulate(lengths.tolist()))
    return [text[end - size : end] for end, size in zip(ends, lengths.tolist(), strict=True)]


def _spread(
    numbers: Integers, values: Iterable[Any], starts: Integers, groups: list[Rows], field: str
) -> None:
    """Put values by row number of the page into the dictionaries of their groups."""
    places = np.searchsorted(starts, numbers, side="right") - 1
    within = numbers - starts[places]
    for place, row, value in zip(places.tolist(), within.tolist(), values, strict=True):
        getattr(groups[place], field)[row] = value
