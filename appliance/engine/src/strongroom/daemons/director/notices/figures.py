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

_NAMES = ("event", "severity", "job", "client", "storage")


def notice_metrics(context: DirectorContext, delivery: Delivery) -> list[Metric]:
    """Of all incidents; the caller leaves out what may not be seen. Blocks."""
    catalog = context.catalog
    incidents = {
        tuple((name, str(getattr(one, name))) for name in _NAMES): 1.0
        for one in open_incidents(catalog)
    }
    return [
        Metric(
            "strongroom_incidents",
            "What is wrong now, as labels; always 1.",
            "gauge",
            tuple((dict(labels), value) for labels, value in incidents.items()),
        ),
        Metric(
            "strongroom_notices_waiting",
            "Messages that wait to be sent.",
            "gauge",
            (({}, float(sum(waiting_counts(catalog).values()))),),
        ),
        Metric(
            "strongroom_notices_dead",
            "Messages that could not be delivered and were given up.",
            "gauge",
            (({}, float(len(dead_letters(catalog)))),),
        ),
        _counter("sent", "Messages that a destination took, since the start.", delivery.sent),
        _counter("failed", "Attempts that failed, since the start.", delivery.failed),
    ]


def _counter(name: str, text: str, counts: Mapping[str, int]) -> Metric:
    samples = tuple(({"destination": key}, float(count)) for key, count in counts.items())
    return Metric(f"strongroom_notices_{name}_total", text, "counter", samples)
