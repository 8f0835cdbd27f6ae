"""Raw results as JSON: one object a row of the benchmark.

A row is of one run, but for steps that were measured again later on the same machine and tree.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from strongroom.cli.measure.testbed.command import CommandUsage
from strongroom_bench.errors import OtherConditionsError
from strongroom_bench.rows.figures import Run


@dataclass(frozen=True)
class RowResult:
    """Everything measured in one row, and on what.

    later: the date of steps that were measured after all others.
    """

    row: str
    title: str
    date: str
    scale: float
    entries: int
    file_bytes: int
    machine: Mapping[str, str]
    versions: Mapping[str, str]
    runs: list[Run]
    later: Mapping[str, str] = field(default_factory=dict)


def check_conditions(kept: RowResult | None, new: RowResult, steps: Collection[str]) -> None:
    """Whether `steps` of `new` may take the place of those of `kept`.

    Raises OtherConditionsError.
    """
    if kept is None:
        raise OtherConditionsError(f"{new.row} was not measured before: measure all its steps")
    for name in ("scale", "entries", "file_bytes", "machine"):
        before, now = getattr(kept, name), getattr(new, name)
        if before != now:
            raise OtherConditionsError(
                f"{new.row} was measured before with {name} {before}, and now {now}: "
                "measure all its steps, or use --print"
            )
    for program in sorted({run.contender for run in kept.runs if run.step in steps}):
        before = kept.versions.get(program)
        now = new.versions.get(program)
        if before and before != now:
            raise OtherConditionsError(
                f"{new.row} was measured before with {program} {before}, and now with "
                f"{now or 'none'}: measure all its steps and programs, or use --print"
            )


def with_steps_of(kept: RowResult | None, new: RowResult, steps: Collection[str]) -> RowResult:
    """`kept` with `steps` as measured in `new`. Raises OtherConditionsError."""
    check_conditions(kept, new, steps)
    assert kept is not None
    taken = [run for run in new.runs if run.step in steps]
    runs = [run for run in kept.runs if run.step not in steps] + taken
    later = {**kept.later, **{run.step: new.date for run in taken}}
    return replace(kept, runs=runs, later=later, versions={**kept.versions, **new.versions})


def _run_from(values: dict[str, object]) -> Run:
    measurement = values.pop("measurement")
    if not isinstance(measurement, dict):
        raise TypeError("a run without its measurement")
    return Run(measurement=CommandUsage(**measurement), **values)  # type: ignore[arg-type]


def load_results(path: Path) -> dict[str, RowResult]:
    """Rows kept at `path` by name; none when there is no such file."""
    if not path.exists():
        return {}
    rows = {}
    for name, values in json.loads(path.read_text())["rows"].items():
        values["runs"] = [_run_from(run) for run in values["runs"]]
        rows[name] = RowResult(**values)
    return rows


def save_results(path: Path, rows: Mapping[str, RowResult]) -> None:
    """Write all rows to `path`, whole or not at all."""
    text = json.dumps({"rows": {name: asdict(row) for name, row in rows.items()}}, indent=1)
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(text + "\n")
    temporary.replace(path)
