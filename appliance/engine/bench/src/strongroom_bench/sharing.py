"""`python -m strongroom_bench.sharing`: what sharing between clients saves and costs.

Clients with the same operating system and a hundredth of data of their own are backed up one after
the other, as if enrolled in the same night; then `share` and `prune` run. Beside it the same
without sharing, and restic with one repository for all, where anyone who has the password reads
everything. Two clients' backups of the same folder differ in nothing but their own data, so this is
the best case; it shows what the design loses against one client's size.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from strongroom.cli.measure.testbed.command import CommandUsage, adopted_orphans, measure

PASSWORD: Final = "benchmark only"
_OWN_FILE_BYTES: Final = 64 << 10
_MIB: Final = 1 << 20


class Fleet:
    """Clients with a folder in common and one of their own each."""

    def __init__(self, folder: Path, common: Path, count: int) -> None:
        self.folder = folder
        self.common = common
        self.count = count
        self.common_bytes = _content_bytes(common)
        own_bytes = self.common_bytes // 100
        for number in range(count + 1):
            _fill(self.own(number), own_bytes, number)

    def own(self, number: int) -> Path:
        """The folder that only this client has."""
        return self.folder / f"own-{number}"

    def sources(self, number: int) -> list[str]:
        """What a client backs up."""
        return [str(self.common), str(self.own(number))]


class Tool:
    """A program that backs the fleet up into one repository."""

    def __init__(self, fleet: Fleet, name: str) -> None:
        self.fleet = fleet
        self.name = name
        self.repository = fleet.folder / f"repository-{name}"
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(fleet.folder / "home"),
            "STRONGROOM_REPOSITORY": str(self.repository),
            "STRONGROOM_PASSWORD": PASSWORD,
            "RESTIC_REPOSITORY": str(self.repository),
            "RESTIC_PASSWORD": PASSWORD,
        }

    def run(self, *words: str) -> CommandUsage:
        """Run a command; what it printed is in the log of its tool."""
        log = self.fleet.folder / f"{self.name}.log"
        with adopted_orphans():
            return measure(words, self.environment, self.fleet.folder, log)

    def printed(self) -> list[dict[str, Any]]:
        """The JSON lines that the last command printed."""
        log = self.fleet.folder / f"{self.name}.log"
        return [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]

    def stored_bytes(self) -> int:
        """All of the repository."""
        return _content_bytes(self.repository)


def run_strongroom(fleet: Fleet, least_clients: int) -> dict[str, Any]:
    """Back up all clients, share, prune, and the next client."""
    tool = Tool(fleet, f"strongroom-{least_clients}")
    tool.run("strongroom", "init")
    keys = []
    for number in range(fleet.count + 1):
        keys.append(fleet.folder / f"put-{least_clients}-{number}.key")
        tool.run("strongroom", "key", "export-put", "--client", _host(number), str(keys[-1]))
    below = str(fleet.common) if least_clients else ""

    def back_up(number: int) -> int:
        words = ["--key-file", str(keys[number]), "--host", _host(number), "--json", "-q"]
        words += ["--share-below", below, "--cache-dir", str(fleet.folder / f"cache-{number}")]
        tool.run("strongroom", "backup", *words, *fleet.sources(number))
        (summary,) = [line for line in tool.printed() if line["type"] == "summary"]
        return int(summary["stored_bytes"])

    back_up(0)
    alone = tool.stored_bytes()
    for number in range(1, fleet.count):
        back_up(number)
    before = tool.stored_bytes()
    found: dict[str, Any] = {"alone": alone, "before": before}
    if least_clients:
        found["share"] = tool.run("strongroom", "share", "--from", str(least_clients), "--json")
        (found["report"],) = [line for line in tool.printed() if line["type"] == "share"]
    found["prune"] = tool.run("strongroom", "prune", "--json")
    found["after"] = tool.stored_bytes()
    found["parts"] = dict(_parts(tool))
    found["next"] = back_up(fleet.count)
    tool.run("strongroom", "check", "--read-data", "5%")
    shutil.rmtree(tool.repository)
    return found


def run_restic(fleet: Fleet) -> dict[str, Any]:
    """Back up all clients into one repository, and the next client."""
    tool = Tool(fleet, "restic")
    tool.run("restic", "init")

    def back_up(number: int) -> None:
        tool.run("restic", "backup", "--quiet", "--host", _host(number), *fleet.sources(number))

    back_up(0)
    alone = tool.stored_bytes()
    for number in range(1, fleet.count):
        back_up(number)
    after = tool.stored_bytes()
    back_up(fleet.count)
    found = {"alone": alone, "after": after, "next": tool.stored_bytes() - after}
    shutil.rmtree(tool.repository)
    return found


def _parts(tool: Tool) -> Iterator[tuple[str, int]]:
    tool.run("strongroom", "stats", "--json")
    (stats,) = [line for line in tool.printed() if "data_pack_bytes" in line]
    for name in ("data_pack_bytes", "listing_pack_bytes"):
        yield name, int(stats[name])
    yield "rest", tool.stored_bytes() - stats["data_pack_bytes"] - stats["listing_pack_bytes"]


def _host(number: int) -> str:
    return f"client-{number:02d}"


def _fill(folder: Path, size_bytes: int, seed: int) -> None:
    folder.mkdir(parents=True)
    chance = random.Random(seed)
    for number in range(max(1, size_bytes // _OWN_FILE_BYTES)):
        (folder / f"file-{number}").write_bytes(chance.randbytes(_OWN_FILE_BYTES))


def _content_bytes(folder: Path) -> int:
    answer = subprocess.run(
        ["du", "--bytes", "--summarize", str(folder)], capture_output=True, text=True, check=True
    )
    return int(answer.stdout.split()[0])


def _print(fleet: Fleet, ours: dict[str, Any], apart: dict[str, Any], restic: Any) -> None:
    count, alone = fleet.count, ours["alone"]
    print(f"{count} clients with {fleet.common_bytes / _MIB:.0f} MiB in common, 1% of their own")
    print(f"{'':34} {'MiB':>9} {'of one client':>14}")

    def line(title: str, size_bytes: int, one: int) -> None:
        print(f"{title:34} {size_bytes / _MIB:9.1f} {size_bytes / one:14.2f}")

    line("one client alone", alone, alone)
    line("all, before share", ours["before"], alone)
    line("all, after share and prune", ours["after"], alone)
    for name, size_bytes in ours["parts"].items():
        line(f"  {name.replace('_', ' ')}", size_bytes, alone)
    line("the next client uploads", ours["next"], alone)
    line("without sharing: all", apart["after"], apart["alone"])
    line("without sharing: the next", apart["next"], apart["alone"])
    if restic is not None:
        line("restic, one password: all", restic["after"], restic["alone"])
        line("restic, one password: the next", restic["next"], restic["alone"])
    report, cost = ours["report"], ours["share"]
    print(
        f"share: {report['offered_chunks']} chunks offered, {report['shared_chunks']} shared in "
        f"{cost.wall_seconds:.1f} s ({cost.cpu_seconds:.1f} s of processor), peak "
        f"{cost.peak_pss_bytes / _MIB:.0f} MiB: "
        f"{cost.wall_seconds * 1e6 / max(1, report['offered_chunks']):.1f} s a million offered"
    )
    prune = ours["prune"]
    print(f"prune afterwards: {prune.wall_seconds:.1f} s, {prune.peak_pss_bytes / _MIB:.0f} MiB")


def main(words: Sequence[str]) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="strongroom_bench.sharing", description=__doc__)
    parser.add_argument("common", type=Path, nargs="?", default=Path("/usr/share"))
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--work-folder", type=Path, default=Path("/var/tmp"))
    parser.add_argument("--no-restic", action="store_true")
    arguments = parser.parse_args(words)
    with tempfile.TemporaryDirectory(
        dir=arguments.work_folder, prefix="strongroom-sharing-"
    ) as name:
        fleet = Fleet(Path(name), arguments.common.resolve(), arguments.clients)
        ours = run_strongroom(fleet, 3)
        apart = run_strongroom(fleet, 0)
        wants_restic = not arguments.no_restic and shutil.which("restic")
        _print(fleet, ours, apart, run_restic(fleet) if wants_restic else None)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
