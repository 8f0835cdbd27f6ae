"""The description of one metric; daemons export only what is specified."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

MetricKind = Literal["gauge", "counter"]


@dataclass(frozen=True, slots=True)
class Specification:
    """One metric: name, type, unit ("" for a number of things), labels and what it means.

    query: an example in PromQL.
    """

    name: str
    kind: MetricKind
    unit: str
    labels: tuple[str, ...]
    meaning: str
    query: str = ""
