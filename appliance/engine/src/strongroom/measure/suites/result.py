"""What a suite measured, and how conditions are measured in turns."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from strongroom.measure.profile import Machine  # noqa: TC001 - msgspec looks at it

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence


class Row(msgspec.Struct, frozen=True):
    """One condition: its group (`1 ms, first`), its name, seconds of each run, the most memory.

    `place`: where it stands on the x axis of the chart, None for a condition that is no number.
    `content_bytes`: what was backed up or restored; `stored_bytes`: what a repository took for it;
    0 where that is not measured. `figure`: another figure of ours; `text`: what the text found.
    """

    group: str
    condition: str
    seconds: tuple[float, ...]
    memory_bytes: int = 0
    place: float | None = None
    content_bytes: int = 0
    stored_bytes: int = 0
    figure: str = ""
    text: str = ""

    @property
    def median_seconds(self) -> float:
        """Of all runs."""
        return statistics.median(self.seconds)


class SuiteResult(msgspec.Struct, frozen=True):
    """A suite's figures. `seed`: the text, what it found, and what differs here.

    `reference`: the condition that the others of a group are compared with. `axis`: what the x axis
    of the chart counts.
    """

    suite: str
    title: str
    seed: str
    taken_at: str
    machine: Machine
    load: float
    data: str
    reference: str
    axis: str
    rows: tuple[Row, ...]

    def groups(self) -> dict[str, list[Row]]:
        """The rows of each group, in order."""
        found: dict[str, list[Row]] = {}
        for row in self.rows:
            found.setdefault(row.group, []).append(row)
        return found

    def against_reference(self, row: Row) -> float | None:
        """How many times as fast as the reference of its group: the median over the rounds.

        None where the group has none. What else a machine does changes from round to round, so each
        is compared with itself.
        """
        for one in self.groups()[row.group]:
            if one.condition == self.reference:
                pairs = zip(one.seconds, row.seconds, strict=False)
                return statistics.median(before / after for before, after in pairs)
        return None


class Way(NamedTuple):
    """A condition to measure: words of the command line that make it."""

    name: str
    words: tuple[str, ...] = ()
    place: float | None = None


class Taken(NamedTuple):
    """One run."""

    seconds: float
    memory_bytes: int = 0
    stored_bytes: int = 0


def in_turns(
    group: str,
    ways: Sequence[Way],
    rounds: int,
    run: Callable[[Way], Iterable[tuple[str, Taken]]],
    content_bytes: int = 0,
    texts: Mapping[tuple[str, str], str] | None = None,
) -> list[Row]:
    """Every way once a round, the order reversed in every second one.

    `run` gives what it measured by the name of the backup, which goes into the group. `texts`: what
    the text found, by the names of backup and way.
    """
    taken: dict[tuple[str, str], list[Taken]] = {}
    for number in range(rounds):
        for way in list(ways)[:: -1 if number % 2 else 1]:
            for backup, one in run(way):
                taken.setdefault((backup, way.name), []).append(one)
    backups = dict.fromkeys(backup for backup, _ in taken)
    return [
        Row(
            f"{group}, {backup}",
            way.name,
            tuple(one.seconds for one in taken[backup, way.name]),
            max(one.memory_bytes for one in taken[backup, way.name]),
            way.place,
            content_bytes,
            max(one.stored_bytes for one in taken[backup, way.name]),
            text=(texts or {}).get((backup, way.name), ""),
        )
        for backup in backups
        for way in ways
        if (backup, way.name) in taken
    ]
