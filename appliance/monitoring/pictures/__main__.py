"""See the package. Needs Chromium for PNG; with --html it only writes the pages."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pictures.page import height_of, page
from pictures.prometheus import Source

DASHBOARDS = Path(__file__).resolve().parents[3] / "roles" / "monitoring" / "files" / "dashboards"


def main() -> int:
    """Draw; the exit code."""
    parser = argparse.ArgumentParser(prog="pictures")
    parser.add_argument("prometheus", help="its address, such as http://127.0.0.1:9090")
    parser.add_argument("into", type=Path, help="the folder for dashboard-NAME.png")
    parser.add_argument("--client", required=True, help="the client of the dashboard Client")
    parser.add_argument("--seconds", type=float, default=600, help="how far back; default 600")
    parser.add_argument("--end", type=float, default=0, help="Unix time; default now")
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    parser.add_argument("--html", action="store_true", help="write pages only")
    arguments = parser.parse_args()
    end = arguments.end or time.time()
    for path in sorted(DASHBOARDS.glob("*.json")):
        board = json.loads(path.read_text(encoding="utf-8"))
        variables = {"client": arguments.client} if path.stem == "client" else {}
        text = page(board, Source(arguments.prometheus, end - arguments.seconds, end, variables))
        target = arguments.into / f"dashboard-{path.stem}"
        if arguments.html:
            target.with_suffix(".html").write_text(text, encoding="utf-8")
        else:
            _photograph(arguments.chromium, text, target.with_suffix(".png"), height_of(board))
    return 0


def _photograph(chromium: str, text: str, target: Path, height: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        html = Path(folder) / "page.html"
        html.write_text(text, encoding="utf-8")
        words = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--window-size=1552,{height}"]
        subprocess.run(
            [chromium, *words, f"--user-data-dir={folder}/profile", f"--screenshot={target}", html.as_uri()],
            check=True,
            capture_output=True,
        )


if __name__ == "__main__":
    sys.exit(main())
