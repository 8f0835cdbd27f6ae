"""The search: double or quadruple a knob until that stops helping, one at a time, then together.

It knows `measure(condition) -> Run` and nothing of what a condition does. Noise is met in two ways:
a candidate is measured in turns with what is best so far (A B, B A), so that a machine that slows
down does so for both; and turns are repeated until their ratios agree, at most MOST_TURNS times.
What is not faster by LEAST_GAIN is not taken, so a default stays unless there is a reason.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from strongroom.engine.knobs.knob import Value

LEAST_GAIN: Final = 0.03
LEAST_TURNS: Final = 2
USUAL_TURNS: Final = 3
MOST_TURNS: Final = 6
CONFIRMING_TURNS: Final = 4
# Ratios beyond these are clear after LEAST_TURNS.
_CLEARLY_FASTER: Final = 0.85
_CLEARLY_SLOWER: Final = 1.10
# Normal deviations per median absolute deviation.
_MAD_SCALE: Final = 1.4826


class OutOfTimeError(Exception):
    """Raised by `measure` when the time is up; what is best so far stands."""


class Measurement(msgspec.Struct, frozen=True):
    """One measurement: how long it took, the most memory it had, what it stored."""

    seconds: float
    memory_bytes: int
    stored_bytes: int


class KnobChanges(msgspec.Struct, frozen=True):
    """Knobs that differ from their defaults, by name."""

    changes: tuple[tuple[str, bool | int | str], ...] = ()

    def with_value(self, name: str, value: Value, default: Value) -> KnobChanges:
        """The same with one knob set; its default takes it out."""
        kept = [one for one in self.changes if one[0] != name]
        if value != default:
            kept.append((name, value))
        return KnobChanges(tuple(sorted(kept)))

    def value(self, name: str, default: Value) -> Value:
        """What a knob has."""
        return dict(self.changes).get(name, default)

    @property
    def text(self) -> str:
        """Such as `shards 4, workers 2`."""
        return ", ".join(f"{name} {_shown(value)}" for name, value in self.changes) or "defaults"


DEFAULTS: Final = KnobChanges()


@dataclass(frozen=True)
class Axis:
    """A knob and its values: up and down from the default as long as that helps, others each."""

    name: str
    default: Value
    upward: tuple[Value, ...] = ()
    downward: tuple[Value, ...] = ()
    others: tuple[Value, ...] = ()

    def around(self, value: Value) -> tuple[tuple[Value, ...], ...]:
        """The values to either side of one of them, nearest first; of others, as of the default."""
        line = (*reversed(self.downward), self.default, *self.upward)
        place = line.index(value if value in line else self.default)
        return line[place + 1 :], tuple(reversed(line[:place]))


@dataclass(frozen=True)
class Trial:
    """A candidate beside what was best before it; `ratio` of their times, below 1 is faster."""

    candidate: KnobChanges
    incumbent: KnobChanges
    ratio: float
    turns: int
    is_better: bool
    stores_more: bool = False


@dataclass
class Search:
    """One search; `best` is what is known so far, at any time.

    `larger`: how much more than the defaults the best may store, 0.1 for a tenth.
    """

    measure: Callable[[KnobChanges], Measurement]
    axes: Sequence[Axis]
    larger: float = 0.1
    best: KnobChanges = DEFAULTS
    gain: float = 1.0
    is_finished: bool = False
    runs: dict[KnobChanges, list[Measurement]] = field(default_factory=dict)
    comparisons: list[Trial] = field(default_factory=list)

    def run(self) -> None:
        """Search until nothing helps any more or `measure` raises OutOfTimeError."""
        try:
            self._search()
            self.is_finished = True
        except OutOfTimeError:
            return

    def confirm(self) -> None:
        """Measure the best once more beside the defaults; it must win again, else they stay."""
        if self.best == DEFAULTS:
            return
        try:
            compared = self._compare(self.best, DEFAULTS, least=CONFIRMING_TURNS)
        except OutOfTimeError:
            compared = self._judged(self.best, DEFAULTS)
        if compared.is_better:
            self.gain = 1 / compared.ratio
        else:
            self.best, self.gain = DEFAULTS, 1.0

    def costs(self, changes: Sequence[tuple[str, Value]]) -> dict[tuple[str, Value], float]:
        """What settings that are not searched do to the time of the best; those there was time for.

        Above 1 is slower.
        """
        found: dict[tuple[str, Value], float] = {}
        try:
            for name, value in changes:
                candidate = KnobChanges(tuple(sorted((*self.best.changes, (name, value)))))
                compared = self._compare(candidate, self.best, least=USUAL_TURNS)
                found[name, value] = compared.ratio
        except OutOfTimeError:
            pass
        return found

    def _search(self) -> None:
        self._run_once(DEFAULTS)
        winners: list[tuple[float, Axis, Value]] = []
        for axis in self.axes:
            found = self._climb(axis, DEFAULTS)
            if found != DEFAULTS:
                ratio = self._ratio(found, DEFAULTS)
                winners.append((ratio, axis, found.value(axis.name, axis.default)))
        winners.sort(key=lambda one: one[0])
        for _, axis, value in winners:
            together = self.best.with_value(axis.name, value, axis.default)
            if together != self.best and self._known(together, self.best).is_better:
                self.best = together
        if self.best != DEFAULTS:
            # What a knob does may depend on the others: once more, from where they have led.
            for axis in self.axes:
                self.best = self._climb(axis, self.best)

    def _climb(self, axis: Axis, start: KnobChanges) -> KnobChanges:
        """The best of an axis, the other knobs as in `start`."""
        best = start
        for values in axis.around(start.value(axis.name, axis.default)):
            before = best
            for value in values:
                candidate = start.with_value(axis.name, value, axis.default)
                if not self._known(candidate, best).is_better:
                    break
                best = self._noted(candidate)
            if best != before:
                break
        for value in axis.others:
            candidate = start.with_value(axis.name, value, axis.default)
            if candidate != start and self._known(candidate, best).is_better:
                best = self._noted(candidate)
        return best

    def _noted(self, found: KnobChanges) -> KnobChanges:
        """`found`, which is the best from now on if its runs say so."""
        if self.best == DEFAULTS or self._ratio(found, self.best) < 1:
            self.best = found
        return found

    def _known(self, candidate: KnobChanges, incumbent: KnobChanges) -> Trial:
        """A comparison, measured unless the same two were compared before."""
        for one in self.comparisons:
            if (one.candidate, one.incumbent) == (candidate, incumbent):
                return one
            if (one.candidate, one.incumbent) == (incumbent, candidate) and one.is_better:
                return Trial(candidate, incumbent, 1 / one.ratio, one.turns, False)
        return self._compare(candidate, incumbent)

    def _compare(
        self, candidate: KnobChanges, incumbent: KnobChanges, least: int = LEAST_TURNS
    ) -> Trial:
        if self._stores_more(self._run_once(candidate)):
            ratio = self._ratio(candidate, incumbent)
            compared = Trial(candidate, incumbent, ratio, 1, False, stores_more=True)
            self.comparisons.append(compared)
            return compared
        ratios: list[float] = []
        while not _is_settled(ratios, least):
            ratios.append(self._turn(candidate, incumbent, is_reversed=bool(len(ratios) % 2)))
        compared = _judgement(candidate, incumbent, ratios)
        self.comparisons.append(compared)
        return compared

    def _judged(self, candidate: KnobChanges, incumbent: KnobChanges) -> Trial:
        """From the runs there are."""
        ratio = self._ratio(candidate, incumbent)
        return Trial(candidate, incumbent, ratio, 0, ratio < 1 - LEAST_GAIN)

    def _turn(self, candidate: KnobChanges, incumbent: KnobChanges, *, is_reversed: bool) -> float:
        if is_reversed:
            before = self._run(incumbent)
            return self._run(candidate).seconds / before.seconds
        after = self._run(candidate)
        return after.seconds / self._run(incumbent).seconds

    def _stores_more(self, run: Measurement) -> bool:
        usual = self.runs[DEFAULTS][0].stored_bytes
        return run.stored_bytes > usual * (1 + self.larger)

    def _run_once(self, condition: KnobChanges) -> Measurement:
        """A run of a condition: one there is already, or a new one."""
        return self.runs[condition][0] if condition in self.runs else self._run(condition)

    def _run(self, condition: KnobChanges) -> Measurement:
        run = self.measure(condition)
        self.runs.setdefault(condition, []).append(run)
        return run

    def _ratio(self, candidate: KnobChanges, incumbent: KnobChanges) -> float:
        """Of the medians of all their runs."""
        return self.median_seconds(candidate) / self.median_seconds(incumbent)

    def median_seconds(self, condition: KnobChanges) -> float:
        """Of all runs of a condition."""
        return statistics.median(run.seconds for run in self.runs[condition])

    def table(self) -> Iterator[tuple[KnobChanges, float, int, int, int]]:
        """Condition, median seconds, most memory, least stored, number of runs; as first run."""
        for condition, runs in self.runs.items():
            yield (
                condition,
                self.median_seconds(condition),
                max(run.memory_bytes for run in runs),
                min(run.stored_bytes for run in runs),
                len(runs),
            )


def _is_settled(ratios: Sequence[float], least: int) -> bool:
    """Whether more turns would hardly change the judgement."""
    if len(ratios) < least:
        return False
    if len(ratios) >= MOST_TURNS or max(ratios) < _CLEARLY_FASTER or min(ratios) > _CLEARLY_SLOWER:
        return True
    if len(ratios) < USUAL_TURNS:
        return False
    middle = statistics.median(ratios)
    spread = _MAD_SCALE * statistics.median(abs(one - middle) for one in ratios)
    doubt = 2 * spread / len(ratios) ** 0.5
    return bool(abs(middle - (1 - LEAST_GAIN)) > doubt)


def _judgement(candidate: KnobChanges, incumbent: KnobChanges, ratios: Sequence[float]) -> Trial:
    middle = statistics.median(ratios)
    faster = sum(one < 1 for one in ratios)
    is_better = middle < 1 - LEAST_GAIN and faster >= 0.75 * len(ratios)
    return Trial(candidate, incumbent, middle, len(ratios), is_better)


def _shown(value: Value) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
