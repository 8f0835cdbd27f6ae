"""Figures for Prometheus, in its text format, version 0.0.4.

Names and meanings are the service's (`strongroom_*`, base units, unix times); the door adds what it
alone knows. A caller needs the command `metrics` or `status`; Prometheus sends a bearer token.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter
from fastapi.responses import PlainTextResponse, Response

from strongroom.daemons.director.api.connections import Connection
from strongroom.daemons.director.api.door import Asked
from strongroom.daemons.director.results import Metric

if TYPE_CHECKING:
    from collections.abc import Iterable

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

router = APIRouter(tags=["metrics"])

_TEXT: dict[int | str, dict[str, object]] = {
    200: {"description": "All figures", "content": {"text/plain": {"schema": {"type": "string"}}}}
}


@router.get("/metrics", response_class=Response, responses=_TEXT)
async def metrics(asked: Asked) -> PlainTextResponse:
    """All figures now."""
    asked.rights.require_command("metrics")
    found = [*await asked.service.metrics(), *_own(len(asked.door.agents))]
    return PlainTextResponse(exposition(found), media_type=CONTENT_TYPE)


def exposition(metrics: Iterable[Metric]) -> str:
    """The text that Prometheus reads."""
    lines = []
    for metric in metrics:
        lines.append(f"# HELP {metric.name} {_escaped(metric.help)}")
        lines.append(f"# TYPE {metric.name} {metric.kind}")
        for labels, value in metric.samples:
            inner = ",".join(f'{name}="{_quoted(text)}"' for name, text in labels.items())
            lines.append(f"{metric.name}{{{inner}}} {_number(value)}" if inner else
                         f"{metric.name} {_number(value)}")  # fmt: skip
    return "\n".join(lines) + "\n"


def _own(connected_agents: int) -> list[Metric]:
    return [
        Metric(
            "strongroom_director_agent_connections",
            "Agents connected to this director now.",
            "gauge",
            (({}, float(connected_agents)),),
        ),
        Metric(
            "strongroom_director_handshakes",
            "TLS handshakes under way.",
            "gauge",
            (({}, float(Connection.handshakes.unproven.count)),),
        ),
        Metric(
            "strongroom_director_refused_handshakes_total",
            "Connections closed at once because too many handshakes were under way.",
            "counter",
            (({}, float(Connection.handshakes.refused)),),
        ),
    ]


def _number(value: float) -> str:
    if value != value:  # noqa: PLR0124 - how one tells NaN
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) and abs(value) < 1 << 53 else repr(float(value))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _quoted(text: str) -> str:
    return _escaped(text).replace('"', '\\"')
