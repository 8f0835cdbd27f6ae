"""Pages end where the rows say so: slices do not matter, and an insertion changes little."""

from __future__ import annotations

from array import array
from zlib import crc32

from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from strongroom.engine.content.digests import BLOCK_ID_SIZE
from strongroom.engine.repository.listing.page import MAX_PAGE_ROWS, encode_page
from strongroom.engine.repository.listing.page_builder import (
    MAX_PAGE_WEIGHT_BYTES,
    MIN_PAGE_ROWS,
    PageBuilder,
    page_ends,
)
from strongroom.engine.rows.rows import Rows, new_rows, split_rows
from strongroom.engine.scan.attributes import encode_xattrs


def directory_of(path: bytes, names: list[bytes]) -> Rows:
    stats = array("q")
    for number in range(len(names)):
        stats.extend((0o100644, 0, 0, 0, 10**18, 10**18, number, 65, 1, 0))
    return new_rows(path, names, stats)


def pages_of(slices: list[Rows]) -> list[list[Rows]]:
    builder = PageBuilder()
    pages = [page for rows in slices for page in builder.add(rows)]
    return pages + builder.finish()


def sizes(pages: list[list[Rows]]) -> list[int]:
    return [sum(rows.row_count for rows in page) for page in pages]


NAMES = [b"file%07d" % number for number in range(60_000)]
WIDE = directory_of(b"wide", NAMES)


def test_pages_have_neither_too_few_nor_too_many_rows():
    counts = sizes(pages_of([WIDE]))
    assert sum(counts) == len(NAMES)
    assert all(MIN_PAGE_ROWS <= count <= MAX_PAGE_ROWS for count in counts[:-1])
    assert len(counts) > 60_000 // MAX_PAGE_ROWS


def ends_page(name: bytes) -> bool:
    return not crc32(name) & 4095


@given(
    st.lists(st.integers(1, 30_000), min_size=1, max_size=3),
    st.sets(st.integers(0, 29_999), max_size=12),
    st.booleans(),
)
@settings(max_examples=25)
def test_pages_end_at_the_first_row_that_may_end_them(lengths, cuts, some_end_pages):
    """The rule of the format, a row at a time: other cuts would store each page anew."""
    names = NAMES if some_end_pages else [name for name in NAMES if not ends_page(name)]
    directories = [directory_of(b"d%d" % one, names[:length]) for one, length in enumerate(lengths)]
    expected = [0]
    for rows in directories:
        if expected[-1] >= MIN_PAGE_ROWS and not crc32(rows.directory) & 63:
            expected.append(0)
        for name in names[: rows.row_count]:
            is_long = expected[-1] >= MIN_PAGE_ROWS
            if (is_long and ends_page(name)) or expected[-1] >= MAX_PAGE_ROWS:
                expected.append(0)
            expected[-1] += 1
    slices = [
        piece
        for rows in directories
        for piece in split_rows(rows, sorted(cut for cut in cuts if cut < rows.row_count))
    ]
    assert sizes(pages_of(slices)) == expected


@given(st.sets(st.integers(0, len(NAMES)), max_size=12))
@settings(max_examples=15)
def test_slices_do_not_move_the_cuts(cuts):
    assert sizes(pages_of(split_rows(WIDE, sorted(cuts)))) == sizes(pages_of([WIDE]))


@given(
    st.lists(st.integers(1, 9_000), min_size=1, max_size=6),
    st.dictionaries(st.integers(0, 5), st.integers(-1, 6_000)),
    st.sets(st.integers(0, 5)),
)
@example([500, 500, 9000], {1: 2500}, set())
@settings(max_examples=25)
def test_pages_that_follow_those_of_before_end_where_they_would_without(lengths, changed, heavy):
    """Whatever has changed before or behind them on the page."""
    rows = [directory_of(b"d%d" % one, NAMES[:length]) for one, length in enumerate(lengths)]
    for place in heavy & set(range(len(rows))):
        some = range(0, rows[place].row_count, 40)
        rows[place].xattrs = dict.fromkeys(some, encode_xattrs([(b"user.big", bytes(60_000))]))
    before = pages_of(rows)
    page_of = {id(piece): page for page in before for piece in page}
    pieces = [
        directory_of(piece.directory, NAMES[: piece.row_count + changed[number]])
        if number in changed
        else piece
        for number, piece in enumerate(piece for page in before for piece in page)
    ]
    for some in (pieces, pieces[1:]):
        builder = PageBuilder(lambda rows: page_of.get(id(rows), []))
        after = [page for piece in some for page in builder.add(piece)]
        assert after + builder.finish() == pages_of(some)


def test_no_name_is_looked_at_where_pages_follow_those_of_before(monkeypatch):
    before = pages_of([WIDE])
    page_of = {id(piece): page for page in before for piece in page}
    builder = PageBuilder(lambda rows: page_of[id(rows)])
    looked_at = []
    monkeypatch.setattr(
        "strongroom.engine.repository.listing.page_builder._ends_of",
        lambda rows: looked_at.append(rows.row_count) or [0],
    )
    after = [page for whole in before for piece in whole for page in builder.add(piece)]
    assert after + builder.finish() == before
    # At the end of a page the next row decides.
    assert len(looked_at) == len(before) - 1


@given(st.integers(1, 30_000), st.booleans())
@settings(max_examples=15)
def test_ends_that_are_known_make_no_difference(length, is_heavy):
    plain = directory_of(b"wide", NAMES[:length])
    if is_heavy:
        plain.xattrs = {length // 2: encode_xattrs([(b"user.big", bytes(60_000))])}
    known = replace(plain, page_ends=page_ends(NAMES[:length]))
    first, second = ([encode_page(page) for page in pages_of([one])] for one in (known, plain))
    assert first == second


def test_one_more_name_changes_two_pages_at_most():
    names = sorted([*NAMES, b"file0030000-inserted"])
    before = {encode_page(page) for page in pages_of([WIDE])}
    after = [encode_page(page) for page in pages_of([rows_with_inserted_inode(names)])]
    assert sum(page not in before for page in after) <= 2


def rows_with_inserted_inode(names: list[bytes]) -> Rows:
    rows = directory_of(b"wide", [name for name in names if b"-" not in name])
    place = names.index(b"file0030000-inserted")
    stats = array("q", rows.stats)
    row_length = len(stats) // rows.row_count
    stats[place * row_length : place * row_length] = array("q", [0] * row_length)
    return new_rows(b"wide", names, stats)


def test_pages_end_at_directories_too():
    directories = [
        directory_of(b"d%05d" % number, [b"f%d" % n for n in range(10)]) for number in range(6000)
    ]
    pages = pages_of(directories)
    assert sizes(pages)[0] < MAX_PAGE_ROWS
    assert all(MIN_PAGE_ROWS <= count <= MAX_PAGE_ROWS for count in sizes(pages)[:-1])
    assert [rows for page in pages for rows in page] == directories


def test_heavy_rows_end_pages_early_wherever_slices_are():
    rows = directory_of(b"heavy", [b"f%04d" % number for number in range(600)])
    value = encode_xattrs([(b"user.big", bytes(60_000))])
    rows.xattrs = dict.fromkeys(range(600), value)
    whole = pages_of([rows])
    assert len(whole) > 3
    assert all(len(encode_page(page)) < MAX_PAGE_WEIGHT_BYTES for page in whole)
    for cuts in ([1], [139, 140], [300], list(range(0, 600, 7))):
        assert sizes(pages_of(split_rows(rows, cuts))) == sizes(whole)


def test_a_file_of_very_many_chunks_begins_a_page():
    rows = directory_of(b"media", [b"a", b"huge", b"z"])
    count = MAX_PAGE_WEIGHT_BYTES // 18 + 1
    rows.part_counts = array("I", [0, count, 0])
    rows.part_blocks = bytes(BLOCK_ID_SIZE * count)
    rows.part_slots = array("H", bytes(2 * count))
    assert sizes(pages_of([rows])) == [1, 2]


def test_deep_paths_end_pages_early():
    deep = [directory_of(b"/".join([b"d" * 200] * depth), [b"d" * 200]) for depth in range(1, 600)]
    pages = pages_of(deep)
    assert len(pages) > 1
    assert all(sum(len(rows.directory) for rows in page) <= MAX_PAGE_WEIGHT_BYTES for page in pages)


def test_empty_directories_leave_no_rows():
    assert pages_of([directory_of(b"empty", [])]) == []
