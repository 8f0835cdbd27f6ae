"""What a suite measured, and how conditions are measured in turns."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from strongroom.cli.measure.profile import Machine


class Row(msgspec.Struct, frozen=True):
    """One condition: its group (`1 ms, first`), its name, seconds of each run, the most memory.

    No seconds: a row that only says something. `place`: where it is on the x axis of the chart,
    None for a condition that is not a number; `line`: the line it is a point of, "" for its group's
    only one. `content_bytes`: what was backed up or restored; `stored_bytes`: what a repository
    took for it; 0 where that is not measured. `figure`: another figure of ours; `text`: what the
    text found. `cpu_seconds`: processor time of all processes, `serial_seconds`: of the one that no
    number of cores divides; medians, 0 where not measured. `own_reference`: the condition that it
    is compared with besides its group's. `is_best`: of the fixed ones of its group.
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
    line: str = ""
    cpu_seconds: float = 0.0
    serial_seconds: float = 0.0
    own_reference: str = ""
    is_best: bool = False

    @property
    def median_seconds(self) -> float:
        """Of all runs; 0 without any."""
        return statistics.median(self.seconds) if self.seconds else 0.0


class SuiteResult(msgspec.Struct, frozen=True):
    """A suite's figures. `seed`: the text, what it found, and what differs here.

    `reference`: the condition that the others of a group are compared with. `axis`: what the x axis
    of the chart counts. `others_cores`: how many cores other programs used meanwhile, on average.
    """

    suite: str
    title: str
    seed: str
    taken_at: str
    machine: Machine
    others_cores: float
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
        return self._against(row, self.reference)

    def against_own(self, row: Row) -> float | None:
        """The same beside the row's own reference; None for that itself."""
        if row.condition == row.own_reference:
            return None
        return self._against(row, row.own_reference)

    def _against(self, row: Row, condition: str) -> float | None:
        for one in self.groups()[row.group]:
            if one.condition == condition and one.seconds and row.seconds:
                pairs = zip(one.seconds, row.seconds, strict=False)
                return statistics.median(before / after for before, after in pairs)
        return None


class Way(NamedTuple):
    """A condition to measure: words of the command line that make it. The others: of its row."""

    name: str
    words: tuple[str, ...] = ()
    place: float | None = None
    line: str = ""
    own_reference: str = ""


class Taken(NamedTuple):
    """One run; see `Row`."""

    seconds: float
    memory_bytes: int = 0
    stored_bytes: int = 0
    cpu_seconds: float = 0.0
    serial_seconds: float = 0.0


def counted(number: int, name: str) -> str:
    """`1 shard`, `2 shards`: the name in the singular is given."""
    return f"{number:,} {name}" if number == 1 else f"{number:,} {name}s"


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
            line=way.line,
            cpu_seconds=statistics.median(one.cpu_seconds for one in taken[backup, way.name]),
            serial_seconds=statistics.median(one.serial_seconds for one in taken[backup, way.name]),
            own_reference=way.own_reference,
        )
        for backup in backups
        for way in ways
        if (backup, way.name) in taken
    ]
