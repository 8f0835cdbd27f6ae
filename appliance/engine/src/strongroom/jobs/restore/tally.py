"""Counts what one process did for a restore, and sends it to the process that reports."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from strongroom.jobs.restore.messages import TallyCounts
from strongroom.jobs.restore.options import Action, EntryKind, LeftOut, RestoreProblem, Step
from strongroom.rows.views import join_path

if TYPE_CHECKING:
    from strongroom.jobs.restore.scope import Spared
    from strongroom.scan.privileges import Privilege


class Tally:
    """What was done in the directory `place`, and in others before it."""

    def __init__(self, *, tells_steps: bool) -> None:
        self.tells_steps = tells_steps
        self.place = b""
        self.clear()

    def clear(self) -> None:
        """Clear everything but the place."""
        self.actions: Counter[Action] = Counter()
        self.problems: list[RestoreProblem] = []
        self.steps: list[Step] = []
        self.left_out: list[LeftOut] = []
        self.spared: Counter[Spared] = Counter()
        self.written_bytes = 0

    def problem(self, kind: EntryKind, name: bytes, reason: str) -> None:
        """Record a problem of `name` in the current place (b"": the place itself)."""
        path = join_path(self.place, name) if name else self.place
        self.problems.append(RestoreProblem(kind, path, reason))

    def step(self, action: Action, name: bytes) -> None:
        """Record an entry of the current place as done."""
        self.actions[action] += 1
        if self.tells_steps:
            self.steps.append(Step(action, join_path(self.place, name) if name else self.place))

    def leave_out(self, kind: Privilege, place: bytes, name: bytes) -> None:
        """Record a privilege that is not restored; only in the process that reports."""
        self.left_out.append(LeftOut(kind, join_path(place, name) if name else place))

    def spare(self, path: bytes, reason: Spared) -> None:
        """Record what was not removed; only in the process that reports."""
        self.spared[reason] += 1
        if self.tells_steps:
            self.steps.append(Step(Action.SPARED, path))

    def take_counts(self) -> TallyCounts:
        """Return all counts, to be sent to another process, and clear them."""
        counts = TallyCounts(self.actions, self.problems, self.steps, self.written_bytes)
        self.clear()
        return counts

    def add_counts(self, counts: TallyCounts) -> None:
        """Add what another process counted."""
        self.actions.update(counts.actions)
        self.problems += counts.problems
        self.steps += counts.steps
        self.written_bytes += counts.written_bytes
