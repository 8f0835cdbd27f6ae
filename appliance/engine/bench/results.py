"""Raw results as JSON: one object a row of the benchmark, each from one run of its own date."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from bench.figures import Run
from strongroom.measure.testbed.command import CommandUsage

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@dataclass(frozen=True)
class RowResult:
    """Everything measured in one row, and on what."""

    row: str
    title: str
    date: str
    scale: float
    entries: int
    file_bytes: int
    machine: Mapping[str, str]
    versions: Mapping[str, str]
    runs: list[Run]


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
