"""The model of more cores and more shards, and where its serial part comes from."""

from __future__ import annotations

import pytest

from strongroom.measure.more_cores import Cost, predicted_seconds
from strongroom.measure.testbed.local import serial_seconds


def test_the_serial_part_bounds_whatever_the_cores():
    cost = Cost(2.0, 4.0, 0.5)
    assert predicted_seconds(cost, 2, 4) == pytest.approx(1.0)
    assert predicted_seconds(cost, 2, 8) == pytest.approx(0.5)
    assert predicted_seconds(cost, 2, 32) == pytest.approx(0.5)


def test_what_is_lost_here_is_lost_there():
    assert predicted_seconds(Cost(3.0, 4.0, 0.5), 2, 4) == pytest.approx(1.5)


@pytest.mark.parametrize(("shards", "seconds"), [(1, 3.0), (2, 1.5), (4, 1.0), (8, 1.0)])
def test_shards_share_all_but_the_serial_part_up_to_the_cores(shards, seconds):
    cost = Cost(3.0, 4.0, 1.0)
    found = predicted_seconds(cost, 4, 4, shards_here=1, shards=shards)
    assert found == pytest.approx(seconds)


def test_without_processor_time_nothing_changes():
    assert predicted_seconds(Cost(3.0, 0.0, 0.0), 2, 4) == 3.0


def test_the_serial_part_is_read_from_our_summary_alone(tmp_path):
    log = tmp_path / "log"
    log.write_bytes(b'{"type":"progress"}\n{"type":"summary","coordinator_seconds":0.5}\nbye\n')
    assert serial_seconds(log) == 0.5
    log.write_bytes(b"Files: 3 new\nsnapshot 1 saved\n")
    assert serial_seconds(log) is None
