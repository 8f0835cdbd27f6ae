"""How long a director's tree takes to load, and how the time grows: `python -m bench.config_load`.

Writes trees of growing size (the largest: 10,000 clients and 10,000 jobs in 2,000 files), loads
each in a process of its own, as `strongroom config check` would, and states wall time and peak
memory. With --plot the figures go into docs/measurements.
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

from bench.machine import describe_machine

DOCUMENTS = Path(__file__).resolve().parents[3] / "docs" / "measurements"
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
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=FULL_COUNT, help="clients, and jobs")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--steps", type=int, default=5, help="how many sizes, each twice the last")
    parser.add_argument("--plot", action="store_true", help="write docs/measurements")
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
        (DOCUMENTS / "configuration-load.svg").write_text(plot(rows))
        (DOCUMENTS / "configuration-load.md").write_text(document(rows))
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
        "by `python -m bench.config_load --plot` in `appliance/engine`: a director's tree of",
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
    """Seconds, processor time and MiB over the number of clients: three panels of an SVG."""
    width, height, margin = 340, 220, 48
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {3 * width} {height + 20}">',
        "<style>text { font: 11px sans-serif }</style>",
        f'<rect width="{3 * width}" height="{height + 20}" fill="#ffffff"/>',
    ]
    panels = (
        ("seconds", "median", TARGET_SECONDS),
        ("seconds of processor time", "cpu", TARGET_SECONDS),
        ("MiB", "mib", TARGET_MIB),
    )
    most = max(row["count"] for row in rows)
    for index, (title, field, target) in enumerate(panels):
        left = index * width + margin
        high = max(target, *(row[field] for row in rows)) * 1.1

        def x(count: float, left: int = left) -> float:
            return left + count / most * (width - margin - 24)

        def y(value: float, high: float = high) -> float:
            return 30 + (height - 60) * (1 - value / high)

        base, right = y(0), x(most)
        parts.append(f'<text x="{left}" y="18">{title}</text>')
        parts.append(
            f'<path d="M{left} 30 V{base:.1f} H{right:.1f}" fill="none" stroke="#64748b"/>'
        )
        parts += [
            f'<path d="M{left} {y(target):.1f} H{right:.1f}" stroke="#f59e0b"/>',
            f'<text x="{left + 4}" y="{y(target) - 4:.1f}" fill="#b45309">aim {target:g}</text>',
        ]
        points = " ".join(f"{x(row['count']):.1f},{y(row[field]):.1f}" for row in rows)
        parts.append(f'<polyline points="{points}" fill="none" stroke="#0f766e" stroke-width="2"/>')
        places = [(row, x(row["count"]), y(row[field])) for row in rows]
        parts += [
            f'<circle cx="{across:.1f}" cy="{down:.1f}" r="3" fill="#0f766e"/>'
            for _, across, down in places
        ]
        parts += [
            f'<text x="{across:.1f}" y="{base + 14:.1f}" text-anchor="middle">'
            f"{row['count']:,.0f}</text>"
            for row, across, _ in places[-3:]
        ]
        parts.append(
            f'<text x="{right:.1f}" y="{y(rows[-1][field]) - 8:.1f}" text-anchor="end">'
            f"{rows[-1][field]:.3g}</text>"
        )
    parts.append(
        f'<text x="{width + 100}" y="{height + 10}">clients, and as many jobs</text></svg>'
    )
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    raise SystemExit(main())
