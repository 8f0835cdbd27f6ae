"""What a backup would take on more cores than there are here, by `strongroom.measure.more_cores`.

A peer is given the best that is possible: all of its processor time shared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.figures import OURS, PEERS, Figure, Figures, fastest_peer
from strongroom.measure.more_cores import Cost, predicted_seconds

if TYPE_CHECKING:
    from collections.abc import Mapping

CORES = (4, 8, 16, 32)
STEPS = ("first", "unchanged")
_ALWAYS = "restic"


def cores_lines(by_row: Mapping[str, Figures], cores_here: Mapping[str, int]) -> list[list[str]]:
    """Lines of a table, for rows with a serial part: ours, the fastest peer and restic."""
    lines = []
    for row, figures in by_row.items():
        for step in STEPS:
            ours = figures.get((OURS, step))
            if ours is None or ours.serial_seconds is None:
                continue
            most = ours.cpu_seconds / ours.serial_seconds
            share = f"{ours.serial_seconds:.2f} of {ours.cpu_seconds:.2f}"
            lines.append(
                [f"{row}, {step}", OURS, share, f"{most:.1f}", *_walls(ours, cores_here[row])]
            )
            beside = {fastest_peer(figures, step), _ALWAYS}
            for peer in (one for one in PEERS if one in beside and (one, step) in figures):
                theirs = figures[peer, step]
                cpu = f"{theirs.cpu_seconds:.2f}"
                lines.append(["", peer, cpu, "", *_walls(theirs, cores_here[row])])
    return lines


def _walls(figure: Figure, here: int) -> list[str]:
    cost = Cost(figure.wall_seconds, figure.cpu_seconds, figure.serial_seconds or 0.0)
    return [f"{figure.wall_seconds:.2f}"] + [
        f"{predicted_seconds(cost, here, cores):.2f}" for cores in CORES
    ]
