"""How long a director's tree takes to load, and how the time grows.

    python -m strongroom_bench.config_load [--plot]

Writes trees of growing size (the largest: 10,000 clients and 10,000 jobs in 2,000 files), loads
each in its own process, as `strongroom config check` would, and states wall time and peak
memory. With --plot the figures go into appliance/engine/bench/results.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from strongroom.cli.measure.charts import Series, line_chart
from strongroom_bench.charts import chart_file
from strongroom_bench.machine import describe_machine
from strongroom_bench.places import RESULTS

FULL_COUNT = 10_000
PER_FILE = 10
TARGET_SECONDS = 5.0
TARGET_MIB = 300.0
CHILD = """
import json, resource, sys, time
start = time.perf_counter()
from strongroom.config.trees.loader import LoadOptions, load_trees
from strongroom.config.resolve import resolve
from strongroom.config.settings.configuration import DirectorConfiguration
loaded = load_trees(sys.argv[1], LoadOptions())
configuration = resolve(loaded)
seconds = time.perf_counter() - start
assert not loaded.diagnostics.entries, loaded.diagnostics.entries[0].head()
director = configuration.director
settings = DirectorConfiguration.of(director)
fileset = settings.filesets[settings.jobs["job-1"].fileset]
assert fileset.includes[0].options[0].compression == "zstd3"
print(json.dumps({"seconds": seconds, "cpu": time.process_time(), "files": len(loaded.files),
    "resources": len(director.tree.blocks),
    "mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))
"""
FIXED = {
    "director/dir.conf": 'Director {\n  Name = dir\n  Password = "p"\n  Messages = Standard\n}\n',
    "catalog/c.conf": "Catalog {\n  Name = Cat\n  dbname = bareos\n  dbuser = bareos\n}\n",
    "messages/m.conf": "Messages {\n  Name = Standard\n  Console = all, !skipped, !saved\n}\n",
    "storage/s.conf": (
        'Storage {\n  Name = File\n  Address = sd\n  Password = "p"\n  Device = F\n'
        "  Media Type = File\n}\n"
    ),
    "pool/p.conf": "".join(
        f"Pool {{\n  Name = {name}\n  Pool Type = Backup\n  Volume Retention = {days} days\n"
        f"  Maximum Volume Bytes = 50G\n}}\n"
        for name, days in (("Full", 365), ("Differential", 90), ("Incremental", 30))
    ),
    "schedule/s.conf": (
        "Schedule {\n  Name = Weekly\n  Run = Full 1st sat at 21:00\n"
        "  Run = Differential 2nd-5th sat at 21:00\n  Run = Incremental mon-fri at 21:00\n}\n"
    ),
    "jobdefs/d.conf": (
        "JobDefs {\n  Name = Usual\n  Type = Backup\n  Level = Incremental\n  Schedule = Weekly\n"
        "  Storage = File\n  Messages = Standard\n  Pool = Incremental\n"
        "  Full Backup Pool = Full\n  Differential Backup Pool = Differential\n}\n"
    ),
    "fileset/f.conf": "".join(
        f"FileSet {{\n  Name = Set-{number}\n  Include {{\n    Options {{\n"
        f"      Signature = XXH128\n      Compression = ZSTD3\n      One FS = no\n"
        f"      Wild Dir = /proc/{number}\n    }}\n    File = /\n    File = /srv/{number}\n"
        "  }\n}\n"
        for number in range(20)
    ),
}


def write_tree(folder: Path, count: int) -> None:
    """Write `count` clients and as many jobs, PER_FILE in a file, no two quite alike."""
    chance = random.Random(count)
    for name, text in FIXED.items():
        file = folder / "bareos-dir.d" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    for kind, make in (("client", _client), ("job", _job)):
        place = folder / "bareos-dir.d" / kind
        place.mkdir()
        for first in range(0, count, PER_FILE):
            numbers = range(first, min(first + PER_FILE, count))
            text = "\n".join(make(number, chance) for number in numbers)
            (place / f"{kind}-{first:06}.conf").write_text(text)


def _client(number: int, chance: random.Random) -> str:
    secret = "".join(chance.choices("abcdefghijkmnopqrstuvwxyz0123456789+/", k=32))
    return (
        f"Client {{                      # rack {number % 40}\n"
        f"  Name = client-{number}\n"
        f'  Description = "Host {number} of the benchmark"\n'
        f"  Address = host{number}.example.org\n"
        f"  FD Port = {9102 + number % 7}\n"
        f"  Catalog = Cat\n"
        f'  Password = "{secret}"\n'
        f"  Maximum Concurrent Jobs = {1 + number % 20}\n"
        f"  Heartbeat Interval = {number % 90} seconds\n"
        f"  Enabled = {'yes' if number % 9 else 'no'}\n"
        "}\n"
    )


def _job(number: int, chance: random.Random) -> str:
    return (
        "Job {\n"
        f'  Name = "job-{number}"\n'
        '  JobDefs = "Usual"\n'
        f'  Client = "client-{number}"\n'
        f"  FileSet = Set-{number % 20}\n"
        f"  Max Run Time = {1 + number % 48} hours {number % 60} min\n"
        f"  Priority = {5 + chance.randrange(20)}\n"
        f'  Run Before Job = "/usr/local/bin/before --host client-{number}"\n'
        f'  Write Bootstrap = "/var/lib/bareos/%c-{number}.bsr"\n'
        "}\n"
    )


def measure(folder: Path) -> dict[str, float]:
    """Load the tree in `folder` in a new process; its seconds, files, resources and MiB."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(folder)], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def main() -> int:
    """Measure and print; 1 when the largest tree misses its aim."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=FULL_COUNT, help="clients, and jobs")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--steps", type=int, default=5, help="how many sizes, each twice the last")
    parser.add_argument(
        "--plot", action="store_true", help="write page and picture into bench/results"
    )
    arguments = parser.parse_args()
    rows: list[dict[str, float]] = []
    for step in range(arguments.steps):
        count = arguments.count >> (arguments.steps - 1 - step)
        with tempfile.TemporaryDirectory() as folder:
            write_tree(Path(folder), count)
            runs = [measure(Path(folder)) for _ in range(arguments.repeats)]
        best = min(runs, key=lambda run: run["seconds"])
        median = sorted(run["seconds"] for run in runs)[len(runs) // 2]
        rows.append({**best, "count": count, "median": median})
        print(
            f"{count:6} clients and jobs, {best['files']:5.0f} files: {median:5.2f} s "
            f"({best['cpu']:.2f} s of processor time), {best['mib']:.0f} MiB"
        )
    last = rows[-1]
    print(f"{1e6 * last['median'] / last['resources']:.0f} microseconds a resource")
    if arguments.plot:
        (RESULTS / "configuration-load.svg").write_text(plot(rows))
        (RESULTS / "configuration-load.md").write_text(document(rows))
    missed = last["count"] >= FULL_COUNT and (
        last["median"] > TARGET_SECONDS or last["mib"] > TARGET_MIB
    )
    return 1 if missed else 0


def document(rows: list[dict[str, float]]) -> str:
    """The page about these figures."""
    lines = [
        "# How fast a configuration loads",
        "",
        "*For administrators of large fleets, and for developers.*",
        "",
        f"Measured {datetime.now(UTC):%Y-%m-%d} on {_machine()},",
        "by `python -m strongroom_bench.config_load --plot`: a director's tree of",
        "clients and jobs, ten of them in a file, read, checked and resolved in a process of its",
        "own. Wall time is the median of several runs on a machine that others used as well;",
        "processor time is of the fastest run, the start of Python included.",
        "",
        "![time and memory over size](configuration-load.svg)",
        "",
        "| clients and jobs, each | files | seconds | of processor time | MiB |",
        "|---:|---:|---:|---:|---:|",
        *(
            f"| {row['count']:,.0f} | {row['files']:,.0f} | {row['median']:.2f} "
            f"| {row['cpu']:.2f} | {row['mib']:.0f} |"
            for row in rows
        ),
        "",
        f"The aim for the last row is {TARGET_SECONDS:.0f} s and {TARGET_MIB:.0f} MiB.",
        "",
    ]
    return "\n".join(lines)


def _machine() -> str:
    machine = describe_machine(Path(tempfile.gettempdir()))
    return (
        f"{machine['cores']} cores of {machine['processor']}, {machine['distribution']}, "
        f"Python {machine['python']}"
    )


def plot(rows: list[dict[str, float]]) -> str:
    """Seconds, processor time and MiB over the number of clients, each beside its aim."""
    charts = []
    for title, field, aim in (
        ("seconds", "median", TARGET_SECONDS),
        ("seconds of processor time", "cpu", TARGET_SECONDS),
        ("MiB", "mib", TARGET_MIB),
    ):
        lines = [
            Series("measured", [(row["count"], row[field]) for row in rows]),
            Series("aim", [(row["count"], aim) for row in rows]),
        ]
        charts.append(line_chart(title, "clients, and as many jobs", lines, "{:g}".format))
    return chart_file("How fast a configuration loads", charts)


if __name__ == "__main__":
    raise SystemExit(main())
