"""The parts of a run as Markdown: medians, ratios and whether targets are met."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from strongroom_bench.documents import MB, megabytes_text, seconds_text, table
from strongroom_bench.network.parts import (
    COMPRESSIONS,
    MODES,
    QUEUE_LATENCIES_MILLISECONDS,
    QUEUE_SIZES,
    QUEUE_WORKERS,
    TARGET_LATENCIES_MILLISECONDS,
)
from strongroom_bench.network.samples import Part, Sample, median_of, wall_median

LEAST_SHARE_OF_LOCAL_SPEED = 0.8
GREATEST_COST_OF_LATENCY = 0.1
GREATEST_IDLE_DIRECTOR_BYTES = 300 * MB
INTRODUCTION = """# Performance over the network

Measured by `make bench-network` on one machine, everything on loopback: each job with fresh
daemons, a fresh repository and a fresh cache, one after the other, the order reversed in every
second round, the data in the page cache. Client and daemon share the machine's cores, so what the
daemon takes is taken from the client; two machines would do better. Absolute times do not carry
over to another machine; ratios do, roughly.

- *wall*: median of the rounds, from the start of the command to its end;
- *CPU*: user and system time, of the client and of the daemons;
- *memory*: of the client the peak of PSS over its processes or the largest RSS, whichever is more;
  of the storage daemon its largest RSS;
- *stored*: bytes of all files of the repository, or of Bacula's volume.
"""


def network_figures(parts: Mapping[str, Part]) -> str:
    """Everything that goes between the markers."""
    writers: dict[str, Callable[[Part], str]] = {
        "loopback": _loopback,
        "latency": _latency,
        "queue": _queue,
        "peer": _peer,
        "fleet": _fleet,
        "idle": _idle,
        "attack": _attack,
    }
    texts = [f"## Targets\n\n{_targets(parts)}\n"]
    texts += [
        f"{write(parts[name])}\n\n{_measured(parts[name])}\n"
        for name, write in writers.items()
        if name in parts
    ]
    return "\n".join(texts)


def _measured(part: Part) -> str:
    machine = ", ".join(f"{name} {value}" for name, value in part.machine.items())
    versions = ", ".join(f"{name} {value}" for name, value in part.versions.items())
    rounds = len({sample.round_number for sample in part.samples})
    shown = f", {rounds} round{'s' if rounds > 1 else ''}" if rounds else ""
    return f"Measured {part.date}{shown} with {versions} on: {machine}."


def _rows_of(part: Part) -> list[str]:
    return list(dict.fromkeys(sample.row for sample in part.samples))


def _ways_of(part: Part, row: str) -> list[str]:
    """In the order in which the first round took them."""
    return list(dict.fromkeys(sample.way for sample in part.samples if sample.row == row))


def _targets(parts: Mapping[str, Part]) -> str:
    lines: list[list[str]] = []

    def line(aim: str, figure: str, *, met: bool) -> None:
        lines.append([aim, figure, "met" if met else "**not met**"])

    if part := parts.get("loopback"):
        for row in _rows_of(part):
            for mode in MODES:
                share = _share(part.samples, row, "local", f"network, {mode}")
                if share is not None:
                    aim = f"{row}, {mode}: at least {LEAST_SHARE_OF_LOCAL_SPEED:.0%} of local speed"
                    line(aim, f"{share:.0%}", met=share >= LEAST_SHARE_OF_LOCAL_SPEED)
    if part := parts.get("latency"):
        for row in _rows_of(part):
            for delay in TARGET_LATENCIES_MILLISECONDS:
                cost = _cost(part.samples, row, "0 ms", f"{delay} ms")
                if cost is not None:
                    aim = f"{row}, {delay} ms: costs less than {GREATEST_COST_OF_LATENCY:.0%}"
                    line(aim, f"{cost:+.0%}", met=cost < GREATEST_COST_OF_LATENCY)
    if part := parts.get("fleet"):
        figures = part.figures
        done = f"{figures['snapshots']} of {figures['jobs']} snapshots, all data sound"
        met = figures["snapshots"] == figures["jobs"]
        line(f"{figures['agents']} agents, {figures['jobs']} at once: nothing lost", done, met=met)
    if part := parts.get("idle"):
        size = part.figures["rss_bytes"]
        limit = megabytes_text(GREATEST_IDLE_DIRECTOR_BYTES)
        aim = f"director with {part.figures['agents']:,} idle agents: under {limit} MB"
        line(aim, f"{megabytes_text(size)} MB", met=size < GREATEST_IDLE_DIRECTOR_BYTES)
    return table(["target", "figure", ""], lines)


def _share(samples: Sequence[Sample], row: str, base: str, way: str) -> float | None:
    """Speed of one way in shares of another's."""
    whole, other = wall_median(samples, row, base), wall_median(samples, row, way)
    return None if whole is None or other is None else whole / other


def _cost(samples: Sequence[Sample], row: str, base: str, way: str) -> float | None:
    share = _share(samples, row, base, way)
    return None if share is None else 1 / share - 1


def _cells(part: Part, row: str, way: str) -> list[str]:
    def median(value: Callable[[Sample], float]) -> float:
        found = median_of(part.samples, row, way, value)
        assert found is not None
        return found

    walls = [one.wall_seconds for one in part.samples if (one.row, one.way) == (row, way)]
    wall = seconds_text(median(lambda sample: sample.wall_seconds))
    if len(walls) > 1:
        wall += f" ({seconds_text(min(walls))}-{seconds_text(max(walls))})"
    return [
        wall,
        seconds_text(median(lambda sample: sample.client_cpu_seconds)),
        seconds_text(median(lambda sample: sample.server_cpu_seconds)),
        _if_known(median(lambda sample: sample.client_peak_bytes)),
        _if_known(median(lambda sample: sample.server_peak_bytes)),
        megabytes_text(median(lambda sample: sample.stored_bytes)),
    ]


def _if_known(size_bytes: float) -> str:
    return megabytes_text(size_bytes) if size_bytes else ""


_HEADER = ["wall s", "client CPU s", "daemon CPU s", "client MB", "daemon MB", "stored MB"]


def _loopback(part: Part) -> str:
    lines = []
    for row in _rows_of(part):
        for way in _ways_of(part, row):
            share = _share(part.samples, row, "local", way)
            shown = "" if way == "local" or share is None else f"**{share:.0%}**"
            more = _cpu_seconds(part, row, way) / _cpu_seconds(part, row, "local")
            lines.append([row, way, *_cells(part, row, way), f"{more:.2f} times", shown])
    header = ["data", "full backup", *_HEADER, "CPU of both", "of local speed"]
    return f"## Through the storage daemon, against the local engine\n\n{table(header, lines)}"


def _cpu_seconds(part: Part, row: str, way: str) -> float:
    """Median of what client and daemons take together; where others work too it is sounder."""
    found = median_of(
        part.samples,
        row,
        way,
        lambda sample: sample.client_cpu_seconds + sample.server_cpu_seconds,
    )
    assert found is not None
    return found


def _latency(part: Part) -> str:
    lines = []
    for row in _rows_of(part):
        for way in _ways_of(part, row):
            cost = _cost(part.samples, row, "0 ms", way)
            shown = "" if way == "0 ms" or cost is None else f"**{cost:+.0%}**"
            lines.append([row, way, *_cells(part, row, way), shown])
    return (
        "## Latency of the link\n\nAdded to the way there and back, half of it in each "
        "direction, and once more for setting up a connection, by a relay that lets a connection "
        "have 4 MiB under way, as TCP does untuned; all through the relay, TLS mode off, "
        "everything else as usual.\n\n" + table(["data", "latency", *_HEADER, "cost"], lines)
    )


def _queue(part: Part) -> str:
    lines = []
    for row in _rows_of(part):
        for size in QUEUE_SIZES:
            cells = [row, str(size)]
            for delay in QUEUE_LATENCIES_MILLISECONDS:
                wall = wall_median(part.samples, row, f"queue {size}, {delay} ms")
                cells.append("" if wall is None else seconds_text(wall))
            near, far = (f"queue {size}, {delay} ms" for delay in QUEUE_LATENCIES_MILLISECONDS)
            cost = _cost(part.samples, row, near, far)
            lines.append([*cells, "" if cost is None else f"{cost:+.0%}"])
    delays = [f"{delay} ms: wall s" for delay in QUEUE_LATENCIES_MILLISECONDS]
    return (
        f"## Upload queue\n\nThe same with `--workers {QUEUE_WORKERS}` and each "
        "`--upload-queue-size`, in blocks.\n\n" + table(["data", "queue", *delays, "cost"], lines)
    )


def _peer(part: Part) -> str:
    lines = []
    for row in _rows_of(part):
        for name in COMPRESSIONS:
            for mode in MODES:
                ours = f"strongroom, {name}, {mode}"
                theirs = f"bacula, {name}, {mode}"
                for way in (ours, theirs):
                    if way not in _ways_of(part, row):
                        continue
                    rival = f"strongroom, lz4, {mode}" if name == "lzo" else ours
                    share = _share(part.samples, row, theirs, rival)
                    is_shown = share is not None and way == theirs
                    shown = f"**{share:.2f} times as fast**" if is_shown else ""
                    lines.append([row, way, *_cells(part, row, way), shown])
    header = ["data", "program, compression, TLS", *_HEADER, "strongroom is"]
    return (
        "## Bacula\n\nFull backups of the same data by Bacula's director, storage and file daemon "
        "with a SQLite catalog, from asking for the job until its catalog is written; MD5 "
        "signatures, everything else its default. Bacula neither deduplicates nor encrypts what it "
        "stores, ours does both in every line. It has no LZ4 for files: its LZ4 is that of the "
        "connection (Comm Compression), which is off in the other lines; LZO is the nearest it has "
        "for files and is compared with our LZ4.\n\n" + table(header, lines)
    )


def _fleet(part: Part) -> str:
    figures: dict[str, Any] = part.figures
    megabytes = {
        "director: RSS with all connected": "director_idle_rss_bytes",
        "director: largest RSS": "director_peak_rss_bytes",
        "storage daemon: largest RSS": "storage_peak_rss_bytes",
        "an agent: PSS when idle, median": "agent_idle_pss_bytes",
        "all processes of all sides: largest PSS": "all_processes_pss_bytes",
        "files backed up": "bytes",
        "stored": "stored_bytes",
    }
    seconds = {
        "enrolling all, four at a time": "enrolling_seconds",
        "starting and connecting all": "connecting_seconds",
        "asking for a job, median": "asking_median_seconds",
        "asking for a job, slowest": "asking_slowest_seconds",
        "a job from its order to its end, median": "job_median_seconds",
        "a job from its order to its end, slowest": "job_slowest_seconds",
        "until the last job had ended": "all_jobs_seconds",
        "director: CPU while jobs ran": "director_cpu_seconds",
        "storage daemon: CPU while jobs ran": "storage_cpu_seconds",
    }
    lines = [[text, f"{megabytes_text(figures[key])} MB"] for text, key in megabytes.items()]
    lines += [[text, f"{seconds_text(figures[key])} s"] for text, key in seconds.items()]
    return (
        f"## {figures['agents']} agents, {figures['jobs']} backing up at once\n\n"
        "Real agents, each a process with a certificate it enrolled for, at a lower priority than "
        f"the appliance, on the same cores. Each of the {figures['jobs']} backs up "
        f"{figures['files'] // figures['jobs']} files with TLS. Afterwards "
        f"{figures['connected_at_the_end']} agents were connected, all {figures['snapshots']} "
        "snapshots were there, every stored byte was read and checked, and "
        f"{figures['compared_snapshots']} snapshots were restored and compared.\n\n"
        + table(["", "figure"], lines)
    )


def _attack(part: Part) -> str:
    figures: dict[str, Any] = part.figures
    rows = (
        ("backup", "seconds", lambda value: f"{seconds_text(value)} s"),
        ("threads of the daemon", "threads", str),
        ("its RSS", "rss_bytes", lambda value: f"{megabytes_text(value)} MB"),
        ("its open files", "descriptors", str),
        ("its log a second", "log_bytes_per_second", lambda value: f"{value:,} B"),
    )
    lines = [
        [title, *(shown(figures[f"{when}_{name}"]) for when in ("calm", "attacked"))]
        for title, name, shown in rows
    ]
    return (
        "## A backup while another agent attacks the storage daemon\n\n"
        f"{figures['files']:,} files of {figures['file_bytes']:,} random bytes. The attacker has a "
        "certificate of an agent, and opens connections, uploads that it never ends, lists, and "
        "requests that are refused, without end.\n\n" + table(["", "alone", "attacked"], lines)
    )


def _idle(part: Part) -> str:
    figures: dict[str, Any] = part.figures
    each = (figures["rss_bytes"] - figures["rss_alone_bytes"]) / figures["agents"]
    lines = [
        ["RSS without agents", f"{megabytes_text(figures['rss_alone_bytes'])} MB"],
        ["RSS with all connected", f"{megabytes_text(figures['rss_bytes'])} MB"],
        ["an agent costs", f"{each / 1000:.0f} kB"],
        ["connecting all", f"{seconds_text(figures['connecting_seconds'])} s"],
        ["CPU of that", f"{seconds_text(figures['connecting_cpu_seconds'])} s"],
        ["CPU when idle", f"{figures['idle_cpu_share']:.1%} of a core"],
    ]
    return (
        f"## Director with {figures['agents']:,} idle agents\n\n"
        "Simulated agents: certificates, TLS, WebSockets and pings as of real ones; a Client and a "
        f"Job resource of each. {figures['connected_at_the_end']:,} were connected at the end.\n\n"
        + table(["", "figure"], lines)
    )
