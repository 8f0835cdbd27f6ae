"""Columns of integers and of sorted texts, as listing pages store them.

Numbers are int64. A column is stored in the form that should compress best:

    form u8, then
    CONSTANT  value i64
    PLAIN     width u8, least i64, then value - least as unsigned numbers of that width
    DELTA     width u8, first i64, then zigzag(value - value before), the first being 0
    TABLE     size u8 (one less), that many i64, then one byte a value

Arithmetic is modulo 2**64, so every column of int64 has every form. Numbers of several bytes
are stored as planes: all lowest bytes, then all second bytes, and so on. A column of more than
CONSTANT_LIMIT numbers is never CONSTANT, so what is stored bounds what decoding allocates.

Sorted texts share prefixes: each is stored as the number of bytes it shares with
the one before (at most 255) and the rest.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from strongroom.base.errors import DamageError

Integers: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"
Unsigned: TypeAlias = "np.ndarray[Any, np.dtype[np.uint64]]"

CONSTANT, PLAIN, DELTA, TABLE = range(4)
CONSTANT_LIMIT: Final = 65536
_TABLE_LIMIT: Final = 256
_PREFIX_LIMIT: Final = 255
_NUMBER: Final = struct.Struct("<q")
_WIDE_HEAD: Final = struct.Struct("<BBq")
_LENGTH: Final = struct.Struct("<I")
_SECTION_LIMIT: Final = (1 << 32) - 1


class SectionWriter:
    """Collects sections, each its length u32 and its bytes."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def add(self, data: bytes) -> None:
        """Append a section. Raises ValueError for 4 GiB and more."""
        if len(data) > _SECTION_LIMIT:
            raise ValueError(f"a section of {len(data)} bytes does not fit into a listing page")
        self._parts += (_LENGTH.pack(len(data)), data)

    def add_integers(self, values: Integers | Sequence[int], *, table: bool = False) -> None:
        """Append a column; `table` where few different values are likely."""
        self.add(encode_integers(np.asarray(values, dtype=np.int64), table=table))

    def joined(self) -> bytes:
        """All sections."""
        return b"".join(self._parts)


class SectionReader:
    """Reads sections in the order they were added. Raises DamageError for the first bad one."""

    def __init__(self, data: bytes, offset: int) -> None:
        self._data = data
        self._offset = offset

    def take(self) -> bytes:
        """The next section."""
        start = self._offset + _LENGTH.size
        if start > len(self._data):
            raise DamageError("listing page ends before its last section")
        (length,) = _LENGTH.unpack_from(self._data, self._offset)
        self._offset = start + length
        if self._offset > len(self._data):
            raise DamageError("listing page ends in the middle of a section")
        return self._data[start : self._offset]

    def take_integers(self, count: int) -> Integers:
        """The next section as `count` numbers."""
        return decode_integers(self.take(), count)

    def take_counts(self, count: int, limit: int) -> Integers:
        """Like `take_integers`, for numbers from 0 to `limit`."""
        values = self.take_integers(count)
        if count and (int(values.min()) < 0 or int(values.max()) > limit):
            raise DamageError(f"listing page holds a number that is not between 0 and {limit}")
        return values

    def end(self) -> None:
        """Raises DamageError when data is left."""
        if self._offset != len(self._data):
            raise DamageError("listing page is longer than its sections")


def encode_integers(values: Integers, *, table: bool = False) -> bytes:
    """A column of int64; the same values always give the same bytes."""
    if not len(values):
        return b""
    first = int(values[0])
    least, greatest = int(values.min()), int(values.max())
    if least == greatest and len(values) <= CONSTANT_LIMIT:
        return bytes((CONSTANT,)) + _NUMBER.pack(first)
    plain = (values - np.int64(least)).view(np.uint64)
    steps = np.zeros(len(values), np.int64)
    np.subtract(values[1:], values[:-1], out=steps[1:])
    zigzag = ((steps << 1) ^ (steps >> 63)).view(np.uint64)
    plain_cost, delta_cost = _cost(plain), _cost(zigzag)
    if table and min(plain_cost, delta_cost) > len(values):
        tabled = _encode_table(values)
        if tabled:
            return tabled
    if delta_cost < plain_cost:
        return _encode_wide(DELTA, first, zigzag)
    return _encode_wide(PLAIN, least, plain)


def decode_integers(data: bytes, count: int) -> Integers:
    """`count` int64 from a column's bytes. Raises DamageError when they are invalid."""
    if not count:
        if data:
            raise DamageError("listing page holds a column for no rows")
        return np.zeros(0, np.int64)
    form = data[0] if data else -1
    if form == CONSTANT and len(data) == 1 + _NUMBER.size and count <= CONSTANT_LIMIT:
        return np.full(count, _NUMBER.unpack_from(data, 1)[0], np.int64)
    if form == TABLE and len(data) >= 2:
        return _decode_table(data, count)
    if form in (PLAIN, DELTA) and len(data) > _WIDE_HEAD.size:
        _, width, base = _WIDE_HEAD.unpack_from(data)
        if width in (1, 2, 4, 8) and len(data) == _WIDE_HEAD.size + width * count:
            numbers = _from_planes(data, _WIDE_HEAD.size, width, count)
            if form == PLAIN:
                return numbers.view(np.int64) + np.int64(base)
            steps = (numbers >> np.uint64(1)).view(np.int64) ^ -(numbers & np.uint64(1)).view(
                np.int64
            )
            steps[0] = base
            return np.cumsum(steps, dtype=np.int64)
    raise DamageError("listing page holds a column that does not fit its number of rows")


def _cost(numbers: Unsigned) -> int:
    """The approximate number of non-zero bytes, an estimate of the compressed size."""
    greatest = int(numbers.max())
    threshold, cost = 1, 0
    while threshold <= greatest:
        cost += int(np.count_nonzero(numbers >= np.uint64(threshold)))
        threshold <<= 8
    return cost


def _encode_wide(form: int, base: int, numbers: Unsigned) -> bytes:
    greatest = int(numbers.max())
    width = 1
    while width < 8 and greatest >> (8 * width):
        width *= 2
    narrow = numbers.astype(f"<u{width}")
    planes = narrow.view(np.uint8).reshape(len(numbers), width).T
    return _WIDE_HEAD.pack(form, width, base) + planes.tobytes()


def _from_planes(data: bytes, offset: int, width: int, count: int) -> Unsigned:
    planes = np.frombuffer(data, np.uint8, width * count, offset).reshape(width, count)
    narrow = np.ascontiguousarray(planes.T).view(f"<u{width}").reshape(count)
    return narrow.astype(np.uint64)


def _encode_table(values: Integers) -> bytes:
    ordered = np.sort(values)
    is_new = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=is_new[1:])
    table = ordered[is_new]
    if len(table) > _TABLE_LIMIT:
        return b""
    places = np.searchsorted(table, values).astype(np.uint8)
    return bytes((TABLE, len(table) - 1)) + table.astype("<i8").tobytes() + places.tobytes()


def _decode_table(data: bytes, count: int) -> Integers:
    size = data[1] + 1
    start = 2 + size * _NUMBER.size
    if len(data) != start + count:
        raise DamageError("listing page holds a column that does not fit its number of rows")
    table = np.frombuffer(data, "<i8", size, 2)
    places = np.frombuffer(data, np.uint8, count, start)
    if int(places.max()) >= size:
        raise DamageError("listing page refers to a value beyond the end of its table")
    taken: Integers = table[places].astype(np.int64)
    return taken


def add_texts(writer: SectionWriter, joined: bytes, count: int, group_starts: Integers) -> None:
    """Append `count` texts, `joined` by NUL; no prefix is shared at a group's first text.

    Raises ValueError when `joined` does not hold `count` texts.
    """
    # The padding lets eight bytes be loaded at the start of every text.
    padded = joined + b"\0" * 9
    letters = np.frombuffer(padded, np.uint8)
    ends = np.flatnonzero(letters[: len(joined) + 1] == 0)
    if len(ends) != count:
        raise ValueError(f"{len(ends)} names were handed in where {count} were announced")
    starts = np.zeros(count, np.int64)
    starts[1:] = ends[:-1] + 1
    shared = _shared_beginnings(padded, starts, ends - starts)
    shared[group_starts] = 0
    rest_starts = starts + shared
    steps = np.zeros(len(joined) + 2, np.int8)
    steps[rest_starts] += 1
    steps[ends] -= 1
    kept = np.cumsum(steps, dtype=np.int8).view(bool)
    writer.add(shared.astype(np.uint8).tobytes())
    writer.add_integers(ends - rest_starts)
    writer.add(letters[: len(kept)][kept].tobytes())


def take_texts(reader: SectionReader, count: int, group_starts: Integers) -> list[bytes]:
    """`count` texts as `add_texts` stored them. Raises DamageError."""
    prefixes = reader.take()
    if len(prefixes) != count:
        raise DamageError("listing page does not hold as many names as rows")
    lengths = reader.take_integers(count)
    rest = reader.take()
    if not count:
        return []
    shared = np.frombuffer(prefixes, np.uint8).astype(np.int64)
    if int(lengths.min()) < 0 or int(lengths.max()) > len(rest) or int(lengths.sum()) != len(rest):
        raise DamageError("lengths of names in a listing page do not add up")
    whole = shared + lengths
    if np.any(shared[1:] > whole[:-1]) or np.any(shared[group_starts]):
        raise DamageError("a name in a listing page takes over more than there is")
    text = b""
    start = 0
    # A comprehension, since there is one turn for each row of a snapshot.
    return [
        text := text[:prefix] + rest[start : (start := end)]
        for prefix, end in zip(prefixes, np.cumsum(lengths).tolist(), strict=True)
    ]


def _shared_beginnings(padded: bytes, starts: Integers, lengths: Integers) -> Integers:
    """Length of the prefix that each text shares with the one before, at most _PREFIX_LIMIT."""
    shared = np.zeros(len(starts), np.int64)
    if len(starts) < 2:
        return shared
    words = np.ndarray((len(padded) - 7,), "<u8", padded, strides=(1,))
    mine, before = starts[1:], starts[:-1]
    bound = np.minimum(np.minimum(lengths[1:], lengths[:-1]), _PREFIX_LIMIT)
    result = bound.copy()
    alive = np.arange(len(mine))
    at = 0
    while len(alive):
        different = words[mine[alive] + at] ^ words[before[alive] + at]
        ends = different != 0
        lowest = different[ends]
        lowest &= np.uint64(0) - lowest
        # A power of two is exact in a float, and so is its exponent.
        bits = np.frexp(lowest.astype(np.float64))[1] - 1
        found = alive[ends]
        result[found] = np.minimum(result[found], at + (bits >> 3))
        at += 8
        alive = alive[~ends]
        alive = alive[bound[alive] > at]
    shared[1:] = result
    return shared
