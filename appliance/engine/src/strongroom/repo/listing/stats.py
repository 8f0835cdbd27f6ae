"""The stat columns of a listing page.

Times are split into seconds and nanoseconds, since whole seconds are common; ctime is stored
as its difference from mtime where that is zero more often than its difference from the row
before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from strongroom.clock import SECOND_NS
from strongroom.errors import DamageError
from strongroom.rows.rows import (
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
)

if TYPE_CHECKING:
    from strongroom.repo.listing.columns import Integers, SectionReader, SectionWriter

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
