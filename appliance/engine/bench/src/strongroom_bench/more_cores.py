"""What a backup would take with more cores, or more shards: a model.

The coordinator is one process, so a backup takes at least its processor time; everything else is
shared by the cores, and by the shards. How far a backup is from that where it was measured is
carried over.
"""

from __future__ import annotations

from typing import NamedTuple


class Cost(NamedTuple):
    """What a backup took: wall clock, processor time of all, and of the coordinator in it."""

    wall_seconds: float
    cpu_seconds: float
    serial_seconds: float


def predicted_seconds(
    cost: Cost, here: int, cores: int, *, shards_here: int = 0, shards: int = 0
) -> float:
    """Wall clock on so many cores, from the `cost` on the cores `here`.

    shards: so many processes share everything but the coordinator's part, `shards_here` of them did
    where it was measured; 0 where there are as many as there are cores to use.
    """
    bound_here = _bound(cost, here, shards_here)
    if not bound_here:
        return cost.wall_seconds
    return cost.wall_seconds * _bound(cost, cores, shards) / bound_here


def _bound(cost: Cost, cores: int, shards: int) -> float:
    shared = (cost.cpu_seconds - cost.serial_seconds) / shards if shards else 0.0
    return max(cost.serial_seconds, cost.cpu_seconds / cores, shared)
