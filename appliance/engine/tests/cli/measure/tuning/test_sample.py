"""What of a folder means it."""

from __future__ import annotations

import os
import random

import pytest

from strongroom.base.errors import UsageError
from strongroom.cli.measure.tuning.runs import (
    MOST_BYTES,
    MOST_FILES,
    choose_sample,
    sample_bounds,
)


@pytest.fixture
def tree(tmp_path):
    """Ten folders of ten files of 1,000 bytes, one file beside them."""
    for folder in range(10):
        (tmp_path / "tree" / f"d{folder}" / "deeper").mkdir(parents=True)
        for number in range(10):
            (tmp_path / "tree" / f"d{folder}" / "deeper" / str(number)).write_bytes(bytes(1000))
    (tmp_path / "tree" / "file").write_bytes(bytes(1000))
    return tmp_path / "tree"


def test_all_of_a_small_folder(tree):
    found = choose_sample(str(tree), random.Random(1))
    assert found == ((os.fsencode(tree),), 101, 101_000, True)


def test_a_part_is_spread_over_the_tree_and_within_its_bounds(tree):
    found = choose_sample(str(tree), random.Random(1), most_bytes=50_000)
    assert not found.is_all
    assert found.size_bytes <= 50_000
    assert found.files >= 30
    folders = {path.split(b"/tree/")[1].split(b"/")[0] for path in found.paths}
    assert len(folders) >= 10
    assert choose_sample(str(tree), random.Random(1), most_files=20).files <= 20


def test_whole_folders_are_taken_where_they_fit(tree):
    found = choose_sample(str(tree), random.Random(1), most_files=100)
    assert any(os.path.isdir(path) for path in found.paths)


def test_no_path_is_taken_twice(tree):
    found = choose_sample(str(tree), random.Random(3), most_files=37)
    assert len(set(found.paths)) == len(found.paths)
    for path in found.paths:
        assert not any(path.startswith(other + b"/") for other in found.paths)


def test_files_that_are_all_too_large_are_no_sample(tmp_path):
    (tmp_path / "disk").write_bytes(bytes(1000))
    with pytest.raises(UsageError, match="small enough"):
        choose_sample(str(tmp_path), random.Random(1), most_bytes=100)


@pytest.mark.parametrize("rate", [0.3e6, 3e6, 30e6])
@pytest.mark.parametrize("minutes", [5, 10, 60])
def test_a_hundred_runs_of_a_sample_fit_into_the_time(rate, minutes):
    size, files = sample_bounds(minutes * 60, rate, is_far=False)
    assert size / rate * 100 <= minutes * 60
    assert files <= MOST_FILES


def test_a_disk_has_the_usual_bounds_and_little_time_makes_them_smaller():
    assert sample_bounds(600, 0, is_far=False) == (MOST_BYTES, MOST_FILES)
    assert sample_bounds(60, 0, is_far=False) < (MOST_BYTES, MOST_FILES)
    assert sample_bounds(600, 0, is_far=True)[1] < MOST_FILES


def test_what_small_folders_leave_unused_goes_to_large_ones(tmp_path):
    """Three small folders beside one that holds nearly everything."""
    for folder, count in (("a", 1), ("b", 1), ("c", 1), ("large", 40)):
        for number in range(count):
            place = tmp_path / folder / str(number // 10)
            place.mkdir(parents=True, exist_ok=True)
            (place / str(number)).write_bytes(bytes(1000))
    for seed in range(10):
        found = choose_sample(str(tmp_path), random.Random(seed), most_bytes=30_000)
        assert 15_000 <= found.size_bytes <= 30_000
