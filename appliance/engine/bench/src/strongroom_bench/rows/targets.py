"""What we aim at, row by row, and whether the figures reach it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from strongroom_bench.contenders import OURS
from strongroom_bench.documents import MB
from strongroom_bench.rows.figures import Figure, Figures, times_as_fast

FLOOR_OF_UNCHANGED = "floor: scan"


@dataclass(frozen=True)
class Verdict:
    """One target beside the figure; `met` is None when it was not measured."""

    row: str
    aim: str
    figure: str
    met: bool | None


@dataclass(frozen=True)
class Target:
    """`quantity` of our `step` in `row` is to reach `limit`.

    Quantities: `speed` (times as fast as the fastest peer, at least), `seconds`, `memory` (MB),
    `stored` (MB), `stored-share` (of restic's), `floor-share` (of the scandir and lstat loop): all
    but speed at most.
    """

    row: str
    step: str
    quantity: str
    limit: float

    @property
    def aim(self) -> str:
        """The target in words."""
        texts = {
            "speed": f"at least {self.limit:g} times as fast as the fastest peer",
            "seconds": f"at most {self.limit:g} s",
            "memory": f"peak memory at most {self.limit:g} MB",
            "stored": f"stored at most {self.limit:g} MB",
            "stored-share": f"stored at most {self.limit:.0%} of restic's",
            "floor-share": f"at most {self.limit:g} times the scandir and lstat loop",
        }
        return f"{self.step}: {texts[self.quantity]}"

    def verdict(self, figures: Figures) -> Verdict:
        """The target judged by the figures of its row."""
        value = self._value(figures)
        if value is None:
            return Verdict(self.row, self.aim, "not measured", None)
        met = value >= self.limit if self.quantity == "speed" else value <= self.limit
        units = {"speed": "{:.2f} times", "seconds": "{:.3f} s", "stored-share": "{:.1%}"}
        units |= {"memory": "{:.0f} MB", "stored": "{:.2f} MB", "floor-share": "{:.2f} times"}
        return Verdict(self.row, self.aim, units[self.quantity].format(value), met)

    def _value(self, figures: Figures) -> float | None:
        ours = figures.get((OURS, self.step))
        if ours is None:
            return None
        match self.quantity:
            case "speed":
                return times_as_fast(figures, self.step)
            case "seconds":
                return ours.wall_seconds
            case "memory":
                return ours.memory_bytes / MB
            case "stored":
                return None if ours.stored_bytes is None else ours.stored_bytes / MB
            case "stored-share":
                return _share(ours, figures.get(("restic", self.step)))
            case "floor-share":
                floor = figures.get((FLOOR_OF_UNCHANGED, self.step))
                return None if floor is None else ours.wall_seconds / floor.wall_seconds
        raise ValueError(f"no such quantity: {self.quantity}")


def _share(ours: Figure, theirs: Figure | None) -> float | None:
    if ours.stored_bytes is None or theirs is None or not theirs.stored_bytes:
        return None
    return ours.stored_bytes / theirs.stored_bytes


def _all_targets() -> tuple[Target, ...]:
    targets: list[Target] = []
    for row in ("kernel", "usr", "media"):
        targets += [Target(row, "first", "speed", 2.5), Target(row, "first", "stored-share", 1.0)]
    for row in ("kernel", "usr"):
        targets.append(Target(row, "unchanged", "speed", 2))
    targets += [
        Target("empty", "first", "speed", 4),
        Target("empty", "first", "stored", 1),
        Target("empty", "first", "memory", 120),
        Target("empty", "unchanged", "speed", 4),
        Target("empty", "unchanged", "memory", 120),
        Target("empty", "unchanged", "floor-share", 1.5),
        Target("small", "first", "speed", 3),
        Target("small", "first", "stored-share", 0.6),
        Target("small", "unchanged", "speed", 3),
    ]
    for row in ("kernel", "usr", "media", "empty", "small"):
        targets.append(Target(row, "restore", "speed", 1))
        for step in ("first", "unchanged", "changed", "restore"):
            if row != "empty" or step in ("changed", "restore"):
                targets.append(Target(row, step, "memory", 200))
    targets += [
        Target("startup", "help", "seconds", 0.15),
        Target("startup", "snapshots", "seconds", 0.4),
        Target("startup", "unchanged", "seconds", 0.4),
    ]
    return tuple(targets)


TARGETS = _all_targets()


def judge(figures_by_row: Mapping[str, Figures]) -> list[Verdict]:
    """Verdicts of the targets of all rows given, in the order of the targets."""
    return [
        target.verdict(figures_by_row[target.row])
        for target in TARGETS
        if target.row in figures_by_row
    ]
