"""All metrics by name. One that is not here cannot be exported."""

from __future__ import annotations

from typing import Final

from strongroom.service.metric_table import agent, director, storage
from strongroom.service.metric_table.specification import Specification

DAEMONS: Final = {
    "Director": director.SECTIONS,
    "Storage daemon": storage.SECTIONS,
    "Agent": agent.SECTIONS,
}
METRICS: Final[dict[str, Specification]] = {
    one.name: one
    for sections in DAEMONS.values()
    for metrics in sections.values()
    for one in metrics
}
