"""Metrics of notices: what is wrong, what waits, what could not be delivered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strongroom.daemons.director.catalog.incidents import open_incidents
from strongroom.daemons.director.catalog.outbox import dead_letters, waiting_counts
from strongroom.daemons.exposition import Metric

if TYPE_CHECKING:
    from collections.abc import Mapping

    from strongroom.daemons.director.context import DirectorContext
    from strongroom.daemons.director.notices.delivery import Delivery

# Label -> field. Prometheus has a label `job` of its own.
_NAMES = {
    "event": "event",
    "severity": "severity",
    "backup_job": "job",
    "client": "client",
    "storage": "storage",
}


def notice_metrics(context: DirectorContext, delivery: Delivery) -> list[Metric]:
    """Of all incidents; the caller leaves out what may not be seen. Blocks."""
    catalog = context.catalog
    incidents = {
        tuple((label, str(getattr(one, field))) for label, field in _NAMES.items()): 1.0
        for one in open_incidents(catalog)
    }
    return [
        Metric(
            "strongroom_incidents",
            tuple((dict(labels), value) for labels, value in incidents.items()),
        ),
        Metric(
            "strongroom_notices_waiting",
            (({}, float(sum(waiting_counts(catalog).values()))),),
        ),
        Metric(
            "strongroom_notices_dead",
            (({}, float(len(dead_letters(catalog)))),),
        ),
        _counter("sent", delivery.sent),
        _counter("failed", delivery.failed),
    ]


def _counter(name: str, counts: Mapping[str, int]) -> Metric:
    samples = tuple(({"destination": key}, float(count)) for key, count in counts.items())
    return Metric(f"strongroom_notices_{name}_total", samples)
