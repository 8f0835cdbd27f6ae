"""Counts what one process did for a restore, and carries it to the process that reports."""

from __future__ import annotations

from collections import Counter
from typing import Any

from strongroom.jobs.restore.options import Action, Kind, Problem, Step
from strongroom.rows.views import join_path


class Tally:
    """What was done in the directory `place`, and in others before it."""

    def __init__(self, *, tells_steps: bool) -> None:
        self.tells_steps = tells_steps
        self.place = b""
        self.clear()

    def clear(self) -> None:
        """Forget everything but the place."""
        self.actions: Counter[Action] = Counter()
        self.problems: list[Problem] = []
        self.steps: list[Step] = []
        self.written_bytes = 0

    def problem(self, kind: Kind, name: bytes, reason: str) -> None:
        """Something about `name` in the current place (b"": the place itself) went wrong."""
        path = join_path(self.place, name) if name else self.place
        self.problems.append(Problem(kind, path, reason))

    def step(self, action: Action, name: bytes) -> None:
        """An entry of the current place is done."""
        self.actions[action] += 1
        if self.tells_steps:
            self.steps.append(Step(action, join_path(self.place, name) if name else self.place))

    def message(self) -> list[Any]:
        """Everything counted, to be sent to another process; and forgets it."""
        content = [
            [[action.value, count] for action, count in self.actions.items()],
            [[kind.value, path, reason] for kind, path, reason in self.problems],
            [[action.value, path] for action, path in self.steps],
            self.written_bytes,
        ]
        self.clear()
        return content

    def add_message(self, content: list[Any]) -> None:
        """Add what another process counted."""
        actions, problems, steps, written_bytes = content
        for action, count in actions:
            self.actions[Action(action)] += count
        self.problems += [Problem(Kind(kind), path, reason) for kind, path, reason in problems]
        self.steps += [Step(Action(action), path) for action, path in steps]
        self.written_bytes += written_bytes
