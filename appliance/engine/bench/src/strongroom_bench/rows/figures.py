"""From single runs to medians, ratios and verdicts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median

from strongroom.cli.measure.testbed.command import CommandUsage
from strongroom_bench.contenders import OURS

PEERS = ("restic", "borg", "rustic")
# Beside them, but no peer to be compared with: it neither deduplicates nor encrypts.
PLAIN = ("bacula",)
Key = tuple[str, str]


@dataclass(frozen=True)
class Run:
    """One measured step of one contender (or floor) in one round."""

    contender: str
    step: str
    round_number: int
    measurement: CommandUsage
    stored_bytes: int | None = None
    # Processor time of the one process that no number of cores divides.
    serial_seconds: float | None = None


@dataclass(frozen=True)
class Figure:
    """Medians over the rounds of one step of one contender."""

    rounds: int
    wall_seconds: float
    fastest_seconds: float
    slowest_seconds: float
    cpu_seconds: float
    peak_pss_bytes: float
    largest_process_rss_bytes: float
    stored_bytes: float | None
    serial_seconds: float | None = None

    @property
    def memory_bytes(self) -> float:
        """The larger of both ways to measure memory: neither alone sees every peak."""
        return max(self.peak_pss_bytes, self.largest_process_rss_bytes)


Figures = Mapping[Key, Figure]


def _figure(runs: list[Run]) -> Figure:
    walls = [run.measurement.wall_seconds for run in runs]
    serial = [run.serial_seconds for run in runs if run.serial_seconds is not None]
    stored = [run.stored_bytes for run in runs if run.stored_bytes is not None]
    return Figure(
        rounds=len(runs),
        wall_seconds=median(walls),
        fastest_seconds=min(walls),
        slowest_seconds=max(walls),
        cpu_seconds=median(run.measurement.cpu_seconds for run in runs),
        peak_pss_bytes=median(run.measurement.peak_pss_bytes for run in runs),
        largest_process_rss_bytes=median(run.measurement.largest_process_rss_bytes for run in runs),
        stored_bytes=median(stored) if stored else None,
        serial_seconds=median(serial) if serial else None,
    )


def summarise(runs: Iterable[Run]) -> dict[Key, Figure]:
    """Medians by (contender, step)."""
    groups: dict[Key, list[Run]] = defaultdict(list)
    for run in runs:
        groups[run.contender, run.step].append(run)
    return {key: _figure(group) for key, group in groups.items()}


def fastest_peer(figures: Figures, step: str) -> str | None:
    """The peer with the least median wall time in `step`; None when no peer was measured."""
    measured = [peer for peer in PEERS if (peer, step) in figures]
    if not measured:
        return None
    return min(measured, key=lambda peer: figures[peer, step].wall_seconds)


def times_as_fast(figures: Figures, step: str) -> float | None:
    """How many times as fast as the fastest peer we are; above 1 is faster. None when unknown."""
    peer = fastest_peer(figures, step)
    ours = figures.get((OURS, step))
    if peer is None or ours is None:
        return None
    return figures[peer, step].wall_seconds / ours.wall_seconds
