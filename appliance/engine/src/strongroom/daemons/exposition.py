"""Figures in the text format of Prometheus, version 0.0.4: served by daemons, or left in a file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable

MetricKind = Literal["gauge", "counter"]
_EXACT: Final = 1 << 53


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric with its samples: labels and value."""

    name: str
    help: str
    kind: MetricKind
    samples: tuple[tuple[dict[str, str], float], ...]


def exposition(metrics: Iterable[Metric]) -> str:
    """The text that Prometheus reads."""
    lines = []
    for metric in metrics:
        lines.append(f"# HELP {metric.name} {_escaped(metric.help)}")
        lines.append(f"# TYPE {metric.name} {metric.kind}")
        for labels, value in metric.samples:
            inner = ",".join(f'{name}="{_quoted(text)}"' for name, text in labels.items())
            of = f"{{{inner}}}" if inner else ""
            lines.append(f"{metric.name}{of} {_number(value)}")
    return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    if value != value:  # noqa: PLR0124 - how one tells NaN
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) and abs(value) < _EXACT else repr(float(value))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _quoted(text: str) -> str:
    return _escaped(text).replace('"', '\\"')
