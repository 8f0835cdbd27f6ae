"""`python -m dashboards FOLDER` writes the JSON; with --check it compares, and ends with 1 if it differs."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from dashboards.appliance import appliance
from dashboards.client import client
from dashboards.fleet import fleet
from dashboards.parts import DIRECTOR

RUNS = f"strongroom_backup_last_run_timestamp_seconds{{{DIRECTOR}%s}} * 1000"


def texts() -> dict[str, str]:
    """File name -> JSON."""
    made = {"fleet": (fleet(), ""), "client": (client(), ', client="$client"'), "appliance": (appliance(), "")}
    found = {}
    for name, (builder, only) in made.items():
        board = json.loads(JSONEncoder(sort_keys=True).encode(builder.build()))
        board["annotations"] = {"list": [_runs(RUNS % only)]}
        for number, panel in enumerate(board["panels"], 1):
            panel["id"] = number
        found[f"{name}.json"] = json.dumps(board, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    return found


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
    stale = []
    for name, text in texts().items():
        path = arguments.folder / name
        if not arguments.check:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(str(path))
    for path in stale:
        print(f"stale: {path}; run make dashboards", file=sys.stderr)
    return int(bool(stale))


if __name__ == "__main__":
    sys.exit(main())
