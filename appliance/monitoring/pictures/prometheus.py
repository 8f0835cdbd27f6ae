"""What a Prometheus answers to the queries of a panel."""

from __future__ import annotations

import json
import re
import urllib.parse
import urllib.request
from dataclasses import dataclass
from typing import Any

STEPS = 240


@dataclass(frozen=True)
class Series:
    """A series: the query it is of, its legend, labels, and (time, value)."""

    query: str
    legend: str
    labels: dict[str, str]
    points: list[tuple[float, float]]

    @property
    def last(self) -> float:
        """The newest value."""
        return self.points[-1][1]


@dataclass(frozen=True)
class Source:
    """A Prometheus, a span of time, and the values of the dashboards' variables."""

    address: str
    begin: float
    end: float
    variables: dict[str, str]

    def series(self, target: dict[str, Any]) -> list[Series]:
        """The answer to a target of a panel."""
        expression = self.asked(target["expr"])
        if target.get("instant"):
            found = self._ask("query", query=expression, time=self.end)
        else:
            step = max(1.0, (self.end - self.begin) / STEPS)
            found = self._ask("query_range", query=expression, start=self.begin, end=self.end, step=step)
        made = []
        for one in found:
            points = [(float(at), float(value)) for at, value in one.get("values", [one.get("value")])]
            legend = re.sub(
                r"\{\{(\w+)\}\}", lambda m, one=one: one["metric"].get(m[1], ""), target.get("legendFormat", "")
            )
            made.append(Series(target["refId"], legend, one["metric"], points))
        return made

    def asked(self, expression: str) -> str:
        """A query with the values of variables; one that is not named means all."""
        text = expression.replace("$__rate_interval", "15s").replace("$__interval", "5s")
        return re.sub(r"\$(\w+)", lambda m: self.variables.get(m[1], ".+"), text)

    def _ask(self, what: str, **fields: Any) -> list[dict[str, Any]]:
        body = urllib.parse.urlencode(fields).encode()
        with urllib.request.urlopen(f"{self.address}/api/v1/{what}", body) as answer:
            found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
        return found
