"""What a backup would take on more cores than there are here: a model, and what it says.

The coordinator is one process, so a backup takes at least its processor time; everything else is
shared by the cores. A peer is given the best that is possible: all of its processor time shared.
How far both are from that on this machine is carried over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.figures import OURS, PEERS, Figure, Figures, fastest_peer

if TYPE_CHECKING:
    from collections.abc import Mapping

CORES = (4, 8, 16, 32)
STEPS = ("first", "unchanged")


def predicted_seconds(figure: Figure, here: int, cores: int) -> float:
    """Wall clock of a step on so many cores, from what it took on the cores `here`."""
    serial = figure.serial_seconds or 0.0
    bound_here = max(serial, figure.cpu_seconds / here)
    bound = max(serial, figure.cpu_seconds / cores)
    return figure.wall_seconds * bound / bound_here if bound_here else figure.wall_seconds


def cores_lines(by_row: Mapping[str, Figures], cores_here: Mapping[str, int]) -> list[list[str]]:
    """Lines of a table: ours and the fastest peer, for each row and step with a serial part."""
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
            peer = fastest_peer(figures, step)
            if peer in PEERS:
                theirs = figures[peer, step]
                cpu = f"{theirs.cpu_seconds:.2f}"
                lines.append(["", peer, cpu, "", *_walls(theirs, cores_here[row])])
    return lines


def _walls(figure: Figure, here: int) -> list[str]:
    return [f"{figure.wall_seconds:.2f}"] + [
        f"{predicted_seconds(figure, here, cores):.2f}" for cores in CORES
    ]
