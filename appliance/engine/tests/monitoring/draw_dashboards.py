"""Draw the dashboards from real backups: the pictures of docs/guides/monitor.md.

    python tests/monitoring/draw_dashboards.py FOLDER [--seconds 600]

Real daemons back up changing files for so long, a real Prometheus watches them, and
appliance/monitoring/pictures draws what it knows (make dashboard-pictures).
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from kit.project import MONITORING
from monitoring.watched_house import House, watched_house


def main() -> int:
    """Back up and draw; the exit code."""
    parser = argparse.ArgumentParser(description="Draw the dashboards from real backups.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=600)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, watched_house(Path(folder)) as watched:
        begun = time.monotonic()
        while time.monotonic() - begun < options.seconds:
            _proceed(watched)
            time.sleep(2.0)
        address = f"http://127.0.0.1:{watched.monitoring.port}"
        words = ("--client", "web1", "--seconds", str(options.seconds))
        subprocess.run(
            [sys.executable, "-m", "pictures", address, str(options.folder.resolve()), *words],
            cwd=MONITORING,
            check=True,
        )
    return 0


def _proceed(watched: House) -> None:
    """Collect, and start what is not running, with files that changed."""
    watched.write_storage_metrics()
    active = {one["client"] for one in watched.house.get("/runs", state="running")["items"]}
    for client in {"web1", "web2"} - active:
        letters = random.randbytes(random.randrange(200_000, 1_500_000))
        files = {"photos": letters, "text": bytes(random.choices(b"abc", k=800_000))}
        watched.house.write_files(client, files)
        watched.house.begin_run(f"nightly-{client}")


if __name__ == "__main__":
    sys.exit(main())
