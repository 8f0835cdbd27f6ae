"""Metrics of notices: what is wrong, what waits, what could not be delivered."""

from __future__ import annotations

from strongroom.director.catalog.incidents import open_incidents
from strongroom.director.catalog.outbox import dead_letters, waiting_counts
from strongroom.director.context import DirectorContext
from strongroom.director.notices.delivery import Delivery
from strongroom.service.exposition import Metric, metric

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
        tuple((label, str(getattr(one, field))) for label, field in _NAMES.items())
        for one in open_incidents(catalog)
    }
    counts = {"sent": delivery.sent, "failed": delivery.failed}
    return [
        metric("incidents", [(dict(labels), 1) for labels in incidents]),
        metric("notices_waiting", sum(waiting_counts(catalog).values())),
        metric("notices_dead", len(dead_letters(catalog))),
        *(
            metric(f"notices_{name}_total", [({"destination": key}, n) for key, n in by.items()])
            for name, by in counts.items()
        ),
    ]
