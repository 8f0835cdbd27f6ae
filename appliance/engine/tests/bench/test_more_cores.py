"""The model of more cores, and where its serial part comes from."""

from __future__ import annotations

import pytest
from bench.figures import OURS, Run, summarise
from bench.more_cores import cores_lines, predicted_seconds
from bench.runner import _serial_seconds

from bench import report
from strongroom.measure.testbed.command import CommandUsage


def run(contender: str, wall: float, cpu: float, serial: float | None = None) -> Run:
    return Run(contender, "first", 0, CommandUsage(wall, cpu, 1, 1, 1), None, serial)


def figures(*runs: Run):
    return summarise(runs)


def test_the_serial_part_bounds_whatever_the_cores():
    ours = figures(run(OURS, 2.0, 4.0, 0.5))[OURS, "first"]
    assert predicted_seconds(ours, 2, 4) == pytest.approx(1.0)
    assert predicted_seconds(ours, 2, 8) == pytest.approx(0.5)
    assert predicted_seconds(ours, 2, 32) == pytest.approx(0.5)


def test_what_is_lost_here_is_lost_there():
    ours = figures(run(OURS, 3.0, 4.0, 0.5))[OURS, "first"]
    assert predicted_seconds(ours, 2, 4) == pytest.approx(1.5)


def test_ours_stands_beside_the_fastest_peer():
    by_row = {
        "kernel": figures(run(OURS, 2, 4, 0.5), run("restic", 8, 16), run("borg", 9, 9)),
        "media": figures(run(OURS, 2, 4)),
    }
    lines = cores_lines(by_row, {"kernel": 2, "media": 2})
    assert lines == [
        ["kernel, first", OURS, "0.50 of 4.00", "8.0", "2.00", "1.00", "0.50", "0.50", "0.50"],
        ["", "restic", "16.00", "", "8.00", "4.00", "2.00", "1.00", "0.50"],
    ]
    assert "| kernel, first | strongroom | 0.50 of 4.00 | 8.0 |" in report.cores_table(lines)


def test_the_serial_part_is_read_from_our_summary_alone(tmp_path):
    log = tmp_path / "log"
    log.write_bytes(b'{"type":"progress"}\n{"type":"summary","coordinator_seconds":0.5}\nbye\n')
    assert _serial_seconds(log) == 0.5
    log.write_bytes(b"Files: 3 new\nsnapshot 1 saved\n")
    assert _serial_seconds(log) is None
