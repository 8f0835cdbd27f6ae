"""Rows can be cut, joined, sent to another process and viewed one by one without a change."""

from __future__ import annotations

import stat
from array import array

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.rows_strategy import page_groups, rows
from strongroom.base.errors import DamageError
from strongroom.engine.rows.rows import (
    comparison_digest,
    decode_groups,
    decode_rows,
    encode_groups,
    encode_rows,
    join_rows,
    new_rows,
    slice_rows,
    split_rows,
)
from strongroom.engine.rows.views import RowReader, join_path, path_key, split_path, views

SIGNED = rows(signature_name="md5", signature_bytes=16)


@given(SIGNED)
def test_rows_reach_another_process_as_they_are(some):
    assert decode_rows(encode_rows(some)) == some


@given(st.lists(SIGNED, max_size=4))
def test_rows_of_several_directories_reach_another_process_as_they_are(some):
    assert decode_groups(encode_groups(some)) == some


@given(st.binary(max_size=60))
def test_other_bytes_from_a_process_are_damage(noise):
    with pytest.raises(DamageError):
        decode_rows(msgspec.msgpack.encode([noise]))
    with pytest.raises(DamageError):
        decode_rows(noise[:-1])
    with pytest.raises(DamageError):
        decode_groups(msgspec.msgpack.encode([[noise]]))


@given(SIGNED, st.sets(st.integers(0, 8), max_size=4))
def test_rows_cut_and_joined_are_the_same_rows(some, cuts):
    within = sorted(cut for cut in cuts if cut <= some.row_count)
    pieces = split_rows(some, within)
    assert len(pieces) == len(within) + 1
    assert join_rows(pieces) == some


@given(SIGNED, st.data())
def test_a_slice_has_the_views_of_its_rows(some, data):
    start = data.draw(st.integers(0, some.row_count))
    stop = data.draw(st.integers(start, some.row_count))
    assert list(views(slice_rows(some, start, stop))) == list(views(some))[start:stop]
    assert list(views(some, start, stop)) == list(views(some))[start:stop]


@given(SIGNED)
def test_views_say_what_the_columns_say(some):
    seen = list(views(some))
    assert [view.name for view in seen] == some.name_list()
    assert sum(len(view.parts) for view in seen) == len(some.part_slots)
    assert b"".join(block for view in seen for block, _ in view.parts) == some.part_blocks
    assert [slot for view in seen for _, slot in view.parts] == some.part_slots.tolist()
    assert b"".join(view.signature for view in seen) == some.signatures
    assert {row: view.xattrs for row, view in enumerate(seen) if view.xattrs} == some.xattrs
    assert {row: view.state for row, view in enumerate(seen) if view.state} == some.states


@given(rows(least_rows=1), st.integers(0, 10_000))
def test_the_digest_tells_any_other_rows(some, position):
    digest = comparison_digest(some.names, some.stats)
    changed = bytearray(some.stats)
    changed[position % len(changed)] ^= 1
    assert comparison_digest(some.names, changed) != digest
    assert comparison_digest(some.names + b"x", some.stats) != digest
    assert comparison_digest(some.names, array("q", some.stats)) == digest


def test_the_digest_of_no_rows_is_one_whatever_holds_them():
    assert comparison_digest(b"", b"") == comparison_digest(b"", array("q"))


def test_the_digest_knows_where_names_end():
    assert comparison_digest(b"ab", b"c") != comparison_digest(b"a", b"bc")


@given(page_groups())
def test_listing_order_keeps_a_sub_tree_together(groups):
    keys = [path_key(some.directory) for some in groups]
    assert keys == sorted(keys)


def test_a_path_is_its_directory_and_its_name():
    for path in (b"home", b"home/ann", b"home/ann/\xff file"):
        assert join_path(*split_path(path)) == path


@pytest.mark.parametrize(
    ("mode", "links", "key"),
    [
        (stat.S_IFREG, 2, (65, 7)),
        (stat.S_IFLNK, 3, (65, 7)),
        (stat.S_IFREG, 1, None),
        (stat.S_IFDIR, 2, None),
    ],
)
def test_only_names_that_share_an_inode_have_a_hard_link_key(mode, links, key):
    stats = array("q", [mode | 0o644, 0, 0, 0, 0, 0, 7, 65, links, 0])
    (view,) = views(new_rows(b"d", [b"x"], stats))
    assert view.hard_link_key == key


@given(SIGNED, st.binary(max_size=4))
def test_a_row_is_found_by_its_name_and_no_other(some, other):
    reader = RowReader(some)
    for view in views(some):
        assert reader.find(view.name) == view
    assert (reader.find(other) is None) == (other not in some.name_list())
