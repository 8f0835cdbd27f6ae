"""A restore whose every problem and step is kept."""

from __future__ import annotations

import os
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from strongroom.base.progress import NullProgress, Progress
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.snapshots import Snapshot
from strongroom.engine.restore.options import (
    LeftOut,
    RestoreOptions,
    RestoreProblem,
    RestoreReport,
    Step,
)
from strongroom.engine.restore.restore import restore


@dataclass
class Seen:
    """An observer that keeps what it is told, and the report."""

    problems: list[RestoreProblem] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    left: list[LeftOut] = field(default_factory=list)
    report: RestoreReport = field(default_factory=RestoreReport)

    def problem(self, problem: RestoreProblem) -> None:
        self.problems.append(problem)

    def step(self, step: Step) -> None:
        self.steps.append(step)

    def left_out(self, left_out: LeftOut) -> None:
        self.left.append(left_out)

    def actions(self) -> dict[bytes, str]:
        return {path: action.value for action, path in self.steps}


def run_restore(
    repository: Repository,
    snapshot: Snapshot,
    target: Path | bytes,
    progress: Progress | None = None,
    **choices: object,
) -> Seen:
    """Restore with two processes; `choices` are fields of RestoreOptions."""
    seen = Seen()
    options = RestoreOptions(
        os.fsencode(target),
        processes=2,
        tells_steps=True,
        **choices,  # type: ignore[arg-type]
    )
    shown = NullProgress() if progress is None else progress
    seen.report = restore(repository, snapshot, options, lambda: nullcontext(shown), seen)
    return seen
