"""Metrics in the text format of Prometheus, version 0.0.4: served by daemons, or written to a file.

What a metric means, its type and its labels are in the table of metrics (metric_table).
prometheus_client formats them. It is imported only on use: commands do not need it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from strongroom.daemons.metric_table.table import METRICS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client import Metric as Family

    from strongroom.daemons.metric_table.specification import Specification


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric of the table, with its samples: labels and value."""

    name: str
    samples: tuple[tuple[dict[str, str], float], ...]

    @property
    def specification(self) -> Specification:
        """What the table says of it."""
        return METRICS[self.name]


def exposition(metrics: Iterable[Metric]) -> bytes:
    """The metrics as UTF-8 text for Prometheus."""
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry(auto_describe=False)
    families = [_family(metric) for metric in metrics]

    class Collected:
        def collect(self) -> Iterable[Family]:
            return families

    registry.register(Collected())
    return generate_latest(registry)


def _family(metric: Metric) -> Family:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    specification = metric.specification
    names = specification.labels
    family = CounterMetricFamily if specification.kind == "counter" else GaugeMetricFamily
    found = family(metric.name, specification.meaning, labels=names)
    for labels, value in metric.samples:
        found.add_metric([_text(labels[name]) for name in names], float(value))
    return found


def _text(label: str) -> str:
    """A label as valid UTF-8; the name of a client may contain other bytes."""
    return label.encode("utf-8", "backslashreplace").decode("utf-8")
