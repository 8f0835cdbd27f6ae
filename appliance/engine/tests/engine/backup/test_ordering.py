"""How much is queued at a shard: many small known directories, few that may bring much."""

from __future__ import annotations

from array import array

import pytest

from strongroom.engine.backup.ordering import (
    READ_WEIGHT,
    SLICE_WEIGHT,
    directory_weight,
    is_quick,
    room_for,
)
from strongroom.engine.rows.rows import COLUMN_COUNT, Rows, new_rows


def _rows(count: int) -> Rows:
    names = [b"%05d" % number for number in range(count)]
    return new_rows(b"home", names, array("q", bytes(8 * COLUMN_COUNT * count)))


@pytest.mark.parametrize(
    ("parent", "directories"),
    [
        ([], 8),
        ([_rows(1)], 32),
        ([_rows(200), _rows(56)], 32),
        ([_rows(257)], 8),
        ([_rows(200), _rows(57)], 8),
    ],
)
def test_small_directories_that_the_parent_knows_are_queued_in_larger_numbers(
    parent: list[Rows], directories: int
) -> None:
    assert room_for(1) // directory_weight(parent, quick=True, waiting=0) == directories


@pytest.mark.parametrize(("waiting", "directories"), [(63, 8), (64, 16)])
def test_more_new_directories_are_queued_while_plenty_wait(waiting: int, directories: int) -> None:
    """The coordinator holds nothing for them, unlike for those that the parent knows."""
    assert room_for(1) // directory_weight([], quick=True, waiting=waiting) == directories
    assert room_for(1) // directory_weight([_rows(257)], quick=True, waiting=waiting) == 8


def test_two_tasks_that_read_content_fill_the_queue() -> None:
    assert room_for(1) == 2 * READ_WEIGHT


def test_two_slices_of_a_wide_directory_fill_the_queue() -> None:
    assert room_for(1) == 2 * SLICE_WEIGHT


def test_each_scan_thread_has_two_directories_that_are_new() -> None:
    assert room_for(64) // directory_weight([], quick=False, waiting=1000) == 128


def test_known_directories_of_a_shard_that_may_have_to_wait_are_queued_like_others() -> None:
    assert room_for(1) // directory_weight([_rows(1)], quick=False, waiting=1000) == 8


@pytest.mark.parametrize(
    ("scan_threads", "scanned", "quick"),
    [(1, 63, False), (1, 64, True), (2, 1000, False)],
)
def test_a_shard_is_quick_after_many_directories_by_one_thread(
    scan_threads: int, scanned: int, quick: bool
) -> None:
    assert is_quick(scan_threads, scanned) == quick
