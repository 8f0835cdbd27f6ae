"""The suite that compares what a backup finds by itself with fixed settings."""

from __future__ import annotations

import os
import shutil

import pytest

from strongroom_bench.suites.by_itself import ITSELF, PLACES, measure_by_itself

pytestmark = pytest.mark.skipif(
    not (os.access("/dev/fuse", os.W_OK) and shutil.which("fusermount3")), reason="no FUSE here"
)


@pytest.mark.slow
def test_each_place_has_its_settings_and_a_judgement(tmp_path):
    told = []
    places = tuple(place._replace(ways=place.ways[-1:]) for place in PLACES)
    data, rows = measure_by_itself(tmp_path, 0.002, 1, told.append, places)
    assert data.endswith("tree: 50 files of 16 KiB")
    expected = [
        (f"{place.name}, {backup}", name)
        for place in places
        for backup in ("first", "unchanged")
        for name in (ITSELF, *(way.name for way in place.ways))
    ]
    assert [(row.group, row.condition) for row in rows] == expected
    for row in rows:
        assert row.seconds[0] > 0
        # Only the row without a setting is judged, by a row of its group.
        assert bool(row.figure) == (row.condition == ITSELF)
    assert "% beside " in rows[0].figure
    # One fixed setting of each group is marked as the best.
    assert all(row.is_best == (row.condition != ITSELF) for row in rows)
    assert all(row.serial_seconds for row in rows)
    # What is read from memory is read once before, and that run does not count.
    assert told.count(f"local disk, {ITSELF}, first") == 2
    assert told.count(f"file server, {ITSELF}, first") == 1
    assert sorted(os.listdir(tmp_path)) == ["sources", "tree"]
