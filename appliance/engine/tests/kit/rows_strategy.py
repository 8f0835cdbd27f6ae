"""Generates Rows of every kind, as no file system would have them all at once."""

from __future__ import annotations

from array import array
from typing import TypeVar

from hypothesis import strategies as st

from strongroom.engine.content.digests import BLOCK_ID_SIZE
from strongroom.engine.rows.rows import (
    CHANGED,
    COLUMN_COUNT,
    GID,
    LINK_COUNT,
    MODE,
    RDEV,
    ROW_BYTES,
    SIZE,
    UID,
    UNREADABLE,
    Rows,
)
from strongroom.engine.rows.views import path_key
from strongroom.engine.scan.attributes import encode_xattrs

INT64 = st.integers(-(2**63), 2**63 - 1)
LIKELY = st.sampled_from([0, 1, 0o100644, 0o40755, 1000, 1_700_000_000_000_000_000, -1, 2**32 - 2])
NAME_LETTERS = st.integers(1, 255).filter(lambda letter: letter != 0x2F).map(lambda i: bytes((i,)))
NAMES = (
    st.one_of(
        st.lists(NAME_LETTERS, min_size=1, max_size=12).map(b"".join),
        st.integers(0, 300).map(lambda number: b"file%04d" % number),
        st.integers(200, 300).map(lambda length: b"n" * length),
    )
    .filter(lambda name: name not in (b".", b".."))
)  # fmt: skip
PATHS = st.lists(NAMES, max_size=4).map(b"/".join)
BLOCK_IDS = st.one_of(
    st.binary(min_size=BLOCK_ID_SIZE, max_size=BLOCK_ID_SIZE),
    st.sampled_from([b"a" * BLOCK_ID_SIZE, b"b" * BLOCK_ID_SIZE]),
)
XATTRS = st.dictionaries(
    NAMES, st.binary(max_size=40), min_size=1, max_size=3
).map(lambda pairs: encode_xattrs(pairs.items()))  # fmt: skip
COUNTS = st.integers(0, 2**62)
T = TypeVar("T")
_BOUNDS = {
    MODE: 0xFFFF,
    UID: 0xFFFFFFFF,
    GID: 0xFFFFFFFF,
    SIZE: (1 << 63) - 1,
    LINK_COUNT: (1 << 63) - 1,
    RDEV: (1 << 63) - 1,
}


@st.composite
def rows(
    draw: st.DrawFn,
    directory: bytes | None = None,
    signature_name: str = "none",
    signature_bytes: int = 0,
    least_rows: int = 1,
) -> Rows:
    path = draw(PATHS) if directory is None else directory
    names = sorted(draw(st.sets(NAMES, min_size=least_rows, max_size=12)))
    if not path and draw(st.booleans()):
        names.insert(0, b"")
    count = len(names)
    numbers = st.integers(0, count - 1) if count else st.nothing()
    stats = array("q", draw(st.binary(min_size=ROW_BYTES * count, max_size=ROW_BYTES * count)))
    for column in draw(st.sets(st.integers(0, COLUMN_COUNT - 1))):
        stats[column::COLUMN_COUNT] = array("q", [draw(st.one_of(LIKELY, INT64))]) * count
    # What a page may have; the other columns take any number.
    for column, most in _BOUNDS.items():
        for place in range(column, len(stats), COLUMN_COUNT):
            stats[place] &= most
    part_counts = array("I", draw(st.lists(st.integers(0, 2), min_size=count, max_size=count)))
    part_count = sum(part_counts)
    blocks = draw(st.lists(BLOCK_IDS, min_size=part_count, max_size=part_count))
    slots = draw(st.lists(st.integers(0, 65535), min_size=part_count, max_size=part_count))

    def some(values: st.SearchStrategy[T]) -> dict[int, T]:
        return draw(st.dictionaries(numbers, values, max_size=count))

    return Rows(
        directory=path,
        names=b"\0".join(names),
        row_count=count,
        stats=stats.tobytes(),
        part_counts=part_counts,
        targets=some(st.binary(min_size=1, max_size=30)),
        xattrs=some(XATTRS),
        flags=some(st.integers(1, 2**32 - 1)),
        states=some(st.sampled_from([UNREADABLE, CHANGED])),
        extents=some(st.lists(st.tuples(COUNTS, COUNTS), max_size=3)),
        part_blocks=b"".join(blocks),
        part_slots=array("H", slots),
        signatures=draw(
            st.binary(min_size=signature_bytes * count, max_size=signature_bytes * count)
        ),
        signature_name=signature_name,
    )


@st.composite
def page_groups(draw: st.DrawFn) -> list[Rows]:
    """What may be on one page: directories in listing order."""
    directories = draw(st.sets(PATHS, min_size=1, max_size=3))
    name, size = draw(st.sampled_from([("none", 0), ("md5", 16), ("sha512", 64)]))
    return [draw(rows(path, name, size)) for path in sorted(directories, key=path_key)]
