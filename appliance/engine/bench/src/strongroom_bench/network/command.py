"""`python -m strongroom_bench.network`: measure backups over the network and write the document.

Parts measured earlier stay in the document with their own date; a run at another scale than 1, or
with fewer agents, is for trying and only prints.
"""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from strongroom import __version__
from strongroom.base.errors import UsageError
from strongroom.cli.measure.testbed.command import adopted_orphans
from strongroom_bench.datasets import DATASETS, known_totals, prepare
from strongroom_bench.documents import write_document
from strongroom_bench.errors import ContenderError
from strongroom_bench.machine import describe_machine
from strongroom_bench.network.attack import measure_attack
from strongroom_bench.network.fleet import measure_fleet
from strongroom_bench.network.idle import measure_idle
from strongroom_bench.network.jobs import Place, Way, run_in_turns
from strongroom_bench.network.parts import latency_ways, loopback_ways, peer_ways, queue_ways
from strongroom_bench.network.report import INTRODUCTION, network_figures
from strongroom_bench.network.samples import Part, load_parts, save_parts
from strongroom_bench.places import RESULTS, WORK
from strongroom_bench.rows.floors import read
from strongroom_bench.rows.runner import remove
from strongroom_bench.testbed import bacula_packages as bacula

MEASURED_PARTS = RESULTS / "performance-network.json"
PARTS = ("loopback", "latency", "queue", "peer", "fleet", "idle", "attack")
ROWS = ("kernel", "media")
FEW_ROUNDS = 1
# A job so short that nothing hides the latency of the link.
SHORT_ROW = "kernel, drivers/net"
SHORT_PART = "*/drivers/net"
EPILOG = """examples:
  make bench-network                                 all parts, into appliance/engine/bench/results
  make bench-network PARTS=loopback,latency ARGUMENTS="--rounds 5"
  make bench-network ARGUMENTS="--scale 0.01 --agents 10 --at-once 3 --idle-agents 100"
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what is measured, how much of it, and where the results go."""
    add = parser.add_argument
    add("--parts", default=",".join(PARTS), help="some of %(default)s")
    add("--rows", default=",".join(ROWS), help="data sets of loopback; others take the first")
    add("--rounds", type=int, default=3, help="of loopback, latency and attack; others have one")
    add("--scale", type=float, default=1.0, help="share of the data sets, to try")
    add("--agents", type=int, default=200, help="real agents of the fleet")
    add("--at-once", type=int, default=50, help="of them that back up at once")
    add("--idle-agents", type=int, default=2000, help="simulated agents of an idle director")
    add("--idle-seconds", type=float, default=30.0, help="how long the idle director is watched")
    add("--compressions", default="none,lz4,lzo,gzip", help="of the comparison with Bacula")
    add("--work-folder", type=Path, default=WORK,
        help="data sets, peers and repositories; data sets and peers stay there")  # fmt: skip
    add("--print", action="store_true", help="write no document, only print")
    add("--documents", type=Path, default=RESULTS, help="where the page goes")


def _check(arguments: argparse.Namespace) -> None:
    for name, known in (("parts", PARTS), ("rows", ROWS)):
        chosen = getattr(arguments, name).split(",")
        if unknown := set(chosen) - set(known):
            raise UsageError(
                f"--{name}: {', '.join(sorted(unknown))}: not among {', '.join(known)}"
            )
        setattr(arguments, name, [one for one in known if one in chosen])


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


class _Bench:
    """One run with its settings."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments = arguments
        self._work: Path = arguments.work_folder.resolve()
        self._folder = self._work / "network"
        self._data: dict[str, Path] = {}
        (self._work / "logs").mkdir(parents=True, exist_ok=True)

    def part(self, name: str) -> Part:
        """Measure one part. Raises ContenderError when Bacula cannot be had."""
        versions = {"strongroom": __version__}
        part = Part(
            name,
            datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
            describe_machine(self._work),
            versions,
        )
        arguments = self._arguments
        first_row = arguments.rows[:1]
        if name == "loopback":
            part.samples = self._jobs(arguments.rows, loopback_ways(), arguments.rounds)
        elif name == "latency":
            part.samples = self._jobs(first_row, latency_ways(), arguments.rounds)
            part.samples += self._jobs([SHORT_ROW], latency_ways(), arguments.rounds)
        elif name == "queue":
            part.samples = self._jobs(first_row, queue_ways(), FEW_ROUNDS)
        elif name == "peer":
            programs = bacula.fetch(self._work)
            versions["bacula"] = bacula.version(programs)
            chosen = tuple(arguments.compressions.split(","))
            part.samples = self._jobs(first_row, peer_ways(programs, chosen), FEW_ROUNDS)
            further = arguments.rows[1:]
            part.samples += self._jobs(further, peer_ways(programs, ("none",)), FEW_ROUNDS)
        else:
            part.figures = self._many(name)
        return part

    def _jobs(self, rows: list[str], ways: list[Way], rounds: int) -> list[Any]:
        samples = []
        for row in rows:
            if row not in self._data and row != SHORT_ROW:
                self._data[row] = prepare(DATASETS[row], self._work, self._arguments.scale)
                _say(f"{row}: {known_totals(self._data[row]).file_bytes / 1e6:,.0f} MB")
                # Into the page cache.
                read(str(self._data[row]))
            elif row not in self._data:
                whole = prepare(DATASETS["kernel"], self._work, self._arguments.scale)
                # A small share of the data may lack it.
                self._data[row] = next(iter(whole.glob(SHORT_PART)), whole)
                read(str(self._data[row]))
            log = self._work / "logs" / f"network-{row.replace('/', '-')}.log"
            place = Place(row, self._data[row], self._folder, log)
            samples += run_in_turns(ways, rounds, place, _say)
        return samples

    def _many(self, name: str) -> dict[str, Any]:
        remove(self._folder)
        arguments = self._arguments
        try:
            if name == "fleet":
                return measure_fleet(self._folder, arguments.agents, arguments.at_once, _say)
            if name == "attack":
                return measure_attack(self._folder, arguments.rounds, arguments.scale, _say)
            return measure_idle(self._folder, arguments.idle_agents, arguments.idle_seconds, _say)
        finally:
            remove(self._folder)


def _publish(part: Part, documents: Path) -> None:
    kept = load_parts(MEASURED_PARTS) | {part.name: part}
    ordered = {name: kept[name] for name in PARTS if name in kept}
    save_parts(MEASURED_PARTS, ordered.values())
    text = network_figures(ordered)
    write_document(documents / "performance-network.md", text, INTRODUCTION)


def run(arguments: argparse.Namespace) -> int:
    """Measure and report."""
    _check(arguments)
    is_whole = arguments.scale == 1 and (arguments.agents, arguments.idle_agents) == (200, 2000)
    bench = _Bench(arguments)
    parts: dict[str, Part] = {}
    for name in arguments.parts:
        try:
            with adopted_orphans():
                parts[name] = bench.part(name)
        except ContenderError as error:
            _say(f"left out: {name}: {error}")
            continue
        # After every part, so that an interrupted run keeps what it has.
        if is_whole and not arguments.print:
            _publish(parts[name], arguments.documents)
    print(network_figures(parts))
    return 0
