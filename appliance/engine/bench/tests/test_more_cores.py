"""The model of more cores and more shards, its table, and where its serial part comes from."""

from __future__ import annotations

import pytest

from strongroom.cli.measure.testbed.command import CommandUsage
from strongroom.cli.measure.testbed.local import serial_seconds
from strongroom_bench.contenders import OURS
from strongroom_bench.more_cores import Cost, predicted_seconds
from strongroom_bench.rows import report
from strongroom_bench.rows.figures import Run, summarise


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


def run(contender: str, wall: float, cpu: float, serial: float | None = None) -> Run:
    return Run(contender, "first", 0, CommandUsage(wall, cpu, 1, 1, 1), None, serial)


def figures(*runs: Run):
    return summarise(runs)


def test_ours_stands_beside_the_fastest_peer_and_restic():
    by_row = {
        "kernel": figures(run(OURS, 2, 4, 0.5), run("restic", 8, 16), run("borg", 9, 9)),
        "usr": figures(run(OURS, 2, 4, 0.5), run("restic", 8, 16), run("borg", 4, 4)),
        "media": figures(run(OURS, 2, 4)),
    }
    lines = report.cores_lines(by_row, {"kernel": 2, "usr": 2, "media": 2})
    assert lines == [
        ["kernel, first", OURS, "0.50 of 4.00", "8.0", "2.00", "1.00", "0.50", "0.50", "0.50"],
        ["", "restic", "16.00", "", "8.00", "4.00", "2.00", "1.00", "0.50"],
        ["usr, first", OURS, "0.50 of 4.00", "8.0", "2.00", "1.00", "0.50", "0.50", "0.50"],
        ["", "restic", "16.00", "", "8.00", "4.00", "2.00", "1.00", "0.50"],
        ["", "borg", "4.00", "", "4.00", "2.00", "1.00", "0.50", "0.25"],
    ]
    assert "| kernel, first | strongroom | 0.50 of 4.00 | 8.0 |" in report.cores_table(lines)
