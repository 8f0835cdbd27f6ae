"""`python -m dashboards FOLDER` writes the JSON; with --check it compares, and ends with 1 if it differs.

Beside this package it writes dashboard-linter.yml, the exceptions for Grafana's dashboard-linter.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from dashboards.appliance import appliance
from dashboards.client import client
from dashboards.fleet import fleet
from dashboards.parts import DIRECTOR, NODE

if TYPE_CHECKING:
    from collections.abc import Iterator

LINTER = "dashboard-linter.yml"
LINTER_FOLDER = Path(__file__).resolve().parents[1]
# What a query of Prometheus adds to an annotation; Grafana's types leave that open.
OF_ANNOTATION = ("step", "titleFormat", "textFormat", "useValueForTime")
RUNS = f"strongroom_backup_last_run_timestamp_seconds{{{DIRECTOR}%s}} * 1000"


def texts() -> dict[str, str]:
    """File name -> JSON."""
    made = {"fleet": (fleet(), ""), "client": (client(), ', client="$client"'), "appliance": (appliance(), "")}
    found = {}
    boards = []
    for name, (builder, only) in made.items():
        board = json.loads(JSONEncoder(sort_keys=True).encode(builder.build()))
        board["annotations"] = {"list": [_runs(RUNS % only)]}
        for number, panel in enumerate(board["panels"], 1):
            panel["id"] = number
        found[f"{name}.json"] = json.dumps(board, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
        boards.append(board)
    found[LINTER] = _exceptions(boards)
    return found


def unknown(text: str) -> list[str]:
    """Where a dashboard has what the types of Grafana's library do not know."""
    board = json.loads(text)
    known = json.loads(JSONEncoder().encode(Dashboard.from_json(board)))
    return list(_lost(board, known, ""))


def _lost(given: Any, known: Any, where: str) -> Iterator[str]:
    if type(given) is not type(known):
        yield where
    elif isinstance(given, dict):
        # A query of Prometheus has its own fields in an annotation.
        is_annotation = where.startswith("/annotations/list/")
        for name, value in given.items():
            if name in known:
                yield from _lost(value, known[name], f"{where}/{name}")
            elif not (is_annotation and name in OF_ANNOTATION):
                yield f"{where}/{name}"
    elif isinstance(given, list):
        for number, (one, other) in enumerate(zip(given, known, strict=True)):
            yield from _lost(one, other, f"{where}/{number}")
    elif given != known:
        yield where


def _exceptions(boards: list[dict[str, Any]]) -> str:
    """The configuration of dashboard-linter: panels of node_exporter have their own variables."""
    lines = ["# Exceptions for Grafana's dashboard-linter, made by `make dashboards`.", "exclusions:"]
    for rule in ("target-job-rule", "target-instance-rule"):
        lines += [
            f"  {rule}:",
            "    reason: node_exporter is another scrape job than the director, at another port of the same machine.",
            "    entries:",
        ]
        for board in boards:
            for panel in board["panels"]:
                for number, target in enumerate(panel.get("targets", ())):
                    if NODE in target["expr"]:
                        entry = {"dashboard": board["title"], "panel": panel["title"], "targetidx": str(number)}
                        lines.append(f"      - {json.dumps(entry)}")
    return "\n".join(lines) + "\n"


def _runs(expression: str) -> dict[str, Any]:
    """A mark where a backup ended: the value of the series is its time."""
    return {
        "name": "Backups",
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "enable": False,
        "expr": expression,
        "iconColor": "blue",
        "step": "5m",
        "titleFormat": "{{backup_job}}",
        "textFormat": "{{client}}",
        "useValueForTime": True,
    }


def main() -> int:
    """Write or compare; the exit code."""
    parser = argparse.ArgumentParser(prog="dashboards")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--check", action="store_true", help="only compare")
    arguments = parser.parse_args()
    register_default_plugins()
    stale = []
    for name, text in texts().items():
        if name.endswith(".json"):
            for where in unknown(text):
                print(f"{name}: Grafana knows no {where}", file=sys.stderr)
                return 1
        path = LINTER_FOLDER / name if name == LINTER else arguments.folder / name
        if not arguments.check:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(str(path))
    for path in stale:
        print(f"stale: {path}; run make dashboards", file=sys.stderr)
    return int(bool(stale))


if __name__ == "__main__":
    sys.exit(main())
