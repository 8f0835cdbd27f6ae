"""A restore whose every problem and step is kept."""

from __future__ import annotations

import os
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from strongroom.jobs.restore.options import (
    LeftOut,
    RestoreOptions,
    RestoreProblem,
    RestoreReport,
    Step,
)
from strongroom.jobs.restore.restore import restore
from strongroom.progress import NullProgress

if TYPE_CHECKING:
    from pathlib import Path

    from strongroom.repo.repository import Repository
    from strongroom.repo.snapshots import Snapshot


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
    repository: Repository, snapshot: Snapshot, target: Path | bytes, **choices: object
) -> Seen:
    """Restore with two workers; `choices` are fields of RestoreOptions."""
    seen = Seen()
    options = RestoreOptions(
        os.fsencode(target),
        workers=2,
        tells_steps=True,
        **choices,  # type: ignore[arg-type]
    )
    seen.report = restore(repository, snapshot, options, lambda: nullcontext(NullProgress()), seen)
    return seen
