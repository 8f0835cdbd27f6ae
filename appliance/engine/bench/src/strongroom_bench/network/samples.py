"""One measured job, and all of a run as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any


@dataclass(frozen=True)
class Sample:
    """One backup. row: data set. way: how it was done, see `loopback` and `latency`.

    server: the storage daemon, and for Bacula its director too; 0 where there is none.
    """

    row: str
    way: str
    round_number: int
    wall_seconds: float
    client_cpu_seconds: float
    server_cpu_seconds: float
    client_peak_bytes: int
    server_peak_bytes: int
    stored_bytes: int


@dataclass
class Part:
    """One part of the benchmark: samples, or single figures by name, and on what."""

    name: str
    date: str
    machine: dict[str, str]
    versions: dict[str, str]
    samples: list[Sample] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)


def wall_median(samples: Iterable[Sample], row: str, way: str) -> float | None:
    """Median of the wall seconds of one way; None when it was not measured."""
    return median_of(samples, row, way, lambda sample: sample.wall_seconds)


def median_of(
    samples: Iterable[Sample], row: str, way: str, value: Callable[[Sample], float]
) -> float | None:
    """Median of some value of the samples of one way; None when there are none."""
    found = [value(sample) for sample in samples if (sample.row, sample.way) == (row, way)]
    return median(found) if found else None


def load_parts(path: Path) -> dict[str, Part]:
    """Parts kept at `path` by name; none when there is no such file."""
    if not path.exists():
        return {}
    parts = {}
    for values in json.loads(path.read_text())["parts"]:
        samples = [Sample(**one) for one in values.pop("samples")]
        parts[values["name"]] = Part(samples=samples, **values)
    return parts


def save_parts(path: Path, parts: Iterable[Part]) -> None:
    """Write all parts to `path`, whole or not at all."""
    temporary = path.with_name(path.name + ".tmp")
    text = json.dumps({"parts": [asdict(part) for part in parts]}, indent=1)
    temporary.write_text(text + "\n")
    temporary.replace(path)
