"""A row is unchanged only when everything that could tell is equal and old enough."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.rows_strategy import rows
from strongroom.engine.content.digests import BLOCK_ID_SIZE
from strongroom.engine.rows.rows import (
    CHANGED,
    COLUMN_COUNT,
    CTIME_NS,
    DEVICE,
    GID,
    INODE,
    LINK_COUNT,
    MODE,
    MTIME_NS,
    RDEV,
    SIZE,
    UID,
    UNREADABLE,
    new_rows,
    slice_rows,
)
from strongroom.engine.rows.views import views
from strongroom.engine.scan.unchanged import Content, merge_unchanged, newest_ctime_ns, take

NEVER = 2**63 - 1


def sample(count: int):
    stats = array("q")
    for number in range(count):
        stats.extend((0o100644, 1, 2, 100, 1000, 2000, 50 + number, 65, 1, 0))
    return new_rows(b"d", [b"n%03d" % number for number in range(count)], stats)


def with_cell(some, row: int, column: int, value: int) -> bytes:
    stats = array("q", some.stats)
    stats[row * COLUMN_COUNT + column] = value
    return stats.tobytes()


def test_equal_rows_are_unchanged():
    parent = sample(5)
    assert merge_unchanged(parent.names, parent.stats, parent, NEVER) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("column", [MODE, UID, GID, SIZE, MTIME_NS, CTIME_NS, INODE, RDEV])
def test_any_column_that_counts_makes_a_row_changed(column):
    parent = sample(4)
    live = with_cell(parent, 2, column, 77)
    assert merge_unchanged(parent.names, live, parent, NEVER) == [0, 1, -1, 3]


@pytest.mark.parametrize("column", [DEVICE, LINK_COUNT])
def test_device_number_and_link_count_do_not(column):
    parent = sample(4)
    live = with_cell(parent, 2, column, 77)
    assert merge_unchanged(parent.names, live, parent, NEVER) == [0, 1, 2, 3]


@pytest.mark.parametrize("state", [UNREADABLE, CHANGED])
def test_a_row_that_was_not_whole_is_read_again(state):
    parent = sample(3)
    parent.states = {1: state}
    assert merge_unchanged(parent.names, parent.stats, parent, NEVER) == [0, -1, 2]


def test_a_row_as_young_as_the_limit_is_read_again():
    parent = sample(3)
    assert merge_unchanged(parent.names, parent.stats, parent, 2001) == [0, 1, 2]
    assert merge_unchanged(parent.names, parent.stats, parent, 2000) == [-1, -1, -1]
    young = with_cell(parent, 1, CTIME_NS, 5000)
    renewed = new_rows(b"d", parent.name_list(), array("q", young))
    assert newest_ctime_ns(young) == 5000
    assert merge_unchanged(parent.names, young, renewed, 4000) == [0, -1, 2]


def test_inserted_and_removed_names_do_not_disturb_the_others():
    parent = sample(6)
    kept = slice_rows(parent, 2, 6)
    stats = array("q", kept.stats)
    stats[0:0] = array("q", [1] * COLUMN_COUNT)
    names = b"a-new\0" + kept.names
    assert merge_unchanged(names, stats, parent, NEVER) == [-1, 2, 3, 4, 5]


def test_a_renamed_file_is_not_the_old_one():
    parent = sample(1)
    assert merge_unchanged(b"other", parent.stats, parent, NEVER) == [-1]


def test_no_rows_match_nothing():
    assert merge_unchanged(b"", b"", sample(3), NEVER) == []
    assert merge_unchanged(b"x", sample(1).stats, sample(0), NEVER) == [-1]


PARENTS = rows(directory=b"d", signature_name="md5", signature_bytes=16)
BLOCK_IDS = st.binary(min_size=BLOCK_ID_SIZE, max_size=BLOCK_ID_SIZE)
PARTS = st.lists(st.tuples(BLOCK_IDS, st.integers(0, 65535)), max_size=3)


@given(PARENTS, st.data())
def test_what_is_taken_over_is_what_the_parent_had(parent, data):
    count = data.draw(st.integers(0, 8))
    matches = data.draw(
        st.lists(st.integers(-1, parent.row_count - 1), min_size=count, max_size=count)
    )
    if data.draw(st.booleans()):
        matches = list(range(parent.row_count))
    live = new_rows(b"d", [b"%d" % row for row in range(len(matches))], array("q"))
    live.stats = bytes(8 * COLUMN_COUNT * len(matches))
    live.signature_name = "md5"
    contents = {}
    for row, place in enumerate(matches):
        if place < 0 and data.draw(st.booleans()):
            parts = data.draw(PARTS)
            contents[row] = Content(
                b"".join(block for block, _ in parts),
                array("H", [slot for _, slot in parts]),
                data.draw(st.sampled_from([b"", b"s" * 16])),
            )
    take(live, parent, matches, contents)
    before = list(views(parent))
    for row, (view, place) in enumerate(zip(views(live), matches, strict=True)):
        if place >= 0:
            old = before[place]
            assert (view.parts, view.target, view.xattrs) == (old.parts, old.target, old.xattrs)
            assert (view.flags, view.extents, view.signature) == (
                old.flags,
                old.extents,
                old.signature,
            )
        else:
            content = contents.get(row)
            assert [slot for _, slot in view.parts] == list(content.part_slots if content else [])
            assert b"".join(block for block, _ in view.parts) == (
                content.part_blocks if content else b""
            )
            wanted = content.signature if content and content.signature else bytes(16)
            assert view.signature in (b"", wanted)
            if content and content.signature:
                assert view.signature == wanted


def test_signatures_of_another_algorithm_are_not_taken_over():
    parent = sample(2)
    parent.signature_name, parent.signatures = "md5", b"m" * 32
    live = sample(2)
    live.signature_name = "sha1"
    take(live, parent, [0, 1], {})
    assert live.signatures == b""
    take(live, parent, [0, -1], {1: Content(b"", array("H"), b"s" * 20)})
    assert live.signatures == bytes(20) + b"s" * 20


def test_rows_keep_what_the_scanner_found_for_changed_ones():
    parent = sample(3)
    parent.xattrs = {0: b"old", 1: b"older"}
    live = sample(3)
    live.xattrs = {2: b"new"}
    take(live, parent, [0, 1, -1], {})
    assert live.xattrs == {0: b"old", 1: b"older", 2: b"new"}
    assert parent.xattrs == {0: b"old", 1: b"older"}
