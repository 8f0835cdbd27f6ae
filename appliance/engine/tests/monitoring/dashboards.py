"""The dashboards as they are committed: their queries, as Grafana would ask them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kit.project import ROLES

FOLDER = ROLES / "monitoring" / "files" / "dashboards"
NAMES = ("fleet", "client", "appliance")


@dataclass(frozen=True)
class Target:
    """A query of a panel, and the labels that its series must have."""

    dashboard: str
    panel: str
    expression: str
    labels: frozenset[str]


def load(name: str) -> dict[str, Any]:
    """A dashboard."""
    found: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    return found


def panels(name: str) -> list[dict[str, Any]]:
    """Those that show something."""
    return [panel for panel in load(name)["panels"] if panel["type"] != "row"]


def targets() -> Iterator[Target]:
    """All queries of all dashboards, of panels and annotations."""
    for name in NAMES:
        for panel in panels(name):
            for target in panel["targets"]:
                labels = frozenset(re.findall(r"\{\{(\w+)\}\}", target.get("legendFormat", "")))
                yield Target(name, panel["title"], target["expr"], labels)
        for annotation in load(name)["annotations"]["list"]:
            yield Target(name, annotation["name"], annotation["expr"], frozenset({"backup_job"}))


def as_asked(expression: str, client: str) -> str:
    """A query with the values of variables: all, and one client."""
    text = expression.replace('client="$client"', f'client="{client}"')
    text = text.replace("$__rate_interval", "10s").replace("$__interval", "5s")
    return re.sub(r"\$\w+", ".+", text)
