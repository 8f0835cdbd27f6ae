"""The table of the model of more cores."""

from __future__ import annotations

from bench.figures import OURS, Run, summarise
from bench.more_cores import cores_lines

from bench import report
from strongroom.measure.testbed.command import CommandUsage


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
    lines = cores_lines(by_row, {"kernel": 2, "usr": 2, "media": 2})
    assert lines == [
        ["kernel, first", OURS, "0.50 of 4.00", "8.0", "2.00", "1.00", "0.50", "0.50", "0.50"],
        ["", "restic", "16.00", "", "8.00", "4.00", "2.00", "1.00", "0.50"],
        ["usr, first", OURS, "0.50 of 4.00", "8.0", "2.00", "1.00", "0.50", "0.50", "0.50"],
        ["", "restic", "16.00", "", "8.00", "4.00", "2.00", "1.00", "0.50"],
        ["", "borg", "4.00", "", "4.00", "2.00", "1.00", "0.50", "0.25"],
    ]
    assert "| kernel, first | strongroom | 0.50 of 4.00 | 8.0 |" in report.cores_table(lines)
