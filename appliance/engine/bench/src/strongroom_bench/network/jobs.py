"""One backup at a time, each of a fresh repository: of the local engine, by a daemon, by Bacula."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from strongroom.cli.measure.testbed.command import CommandUsage, measure
from strongroom.cli.measure.testbed.daemons import plain_environment
from strongroom.cli.measure.testbed.link import slow_link
from strongroom.cli.measure.testbed.local import local_backup, make_local
from strongroom.cli.measure.testbed.vault import Vault
from strongroom_bench.datasets import tree_totals
from strongroom_bench.network.samples import Sample
from strongroom_bench.rows.runner import remove
from strongroom_bench.testbed.bacula import Bacula, BaculaSettings


@dataclass(frozen=True)
class Place:
    """Where a job happens: `folder` is new for each, `log` takes what it says."""

    row: str
    data: Path
    folder: Path
    log: Path


@dataclass(frozen=True)
class Way:
    """How a job is done; `run` gets its place and the number of the round."""

    name: str
    run: Callable[[Place, str, int], Sample]


def local_way(name: str, *words: str) -> Way:
    """Our engine with the repository in a folder."""

    def run(place: Place, way: str, number: int) -> Sample:
        make_local(place.folder)
        command = local_backup(place.folder, "--level", "full", *words, str(place.data))
        environment = plain_environment(place.folder)
        taken = measure(command, environment, place.folder, place.log)
        stored = tree_totals(place.folder / "repository").file_bytes
        return _sample(place, way, number, taken, 0.0, 0, stored)

    return Way(name, run)


def network_way(name: str, mode: str, *words: str, delay_milliseconds: float | None = None) -> Way:
    """Our engine through its own storage daemon; `delay_milliseconds`: through a relay."""

    def run(place: Place, way: str, number: int) -> Sample:
        with Vault(place.folder) as vault:
            with _way_to(vault.port, delay_milliseconds) as port:
                before = vault.daemon.usage().cpu_seconds
                command = vault.backup(mode, "--level", "full", *words, str(place.data), port=port)
                taken = measure(command, vault.environment, place.folder, place.log)
                after = vault.daemon.usage()
            stored = tree_totals(vault.repository).file_bytes
        cpu_seconds = after.cpu_seconds - before
        return _sample(place, way, number, taken, cpu_seconds, after.peak_rss_bytes, stored)

    return Way(name, run)


def bacula_way(name: str, programs: Path, settings: BaculaSettings) -> Way:
    """Bacula's three daemons."""

    def run(place: Place, way: str, number: int) -> Sample:
        with Bacula(programs, place.folder, [[place.data]], settings) as bacula:
            subprocess.run(["sync"], check=True)
            result = bacula.run()
        return Sample(
            place.row,
            way,
            number,
            result.wall_seconds,
            result.file_daemon_cpu_seconds,
            result.storage_daemon_cpu_seconds + result.director_cpu_seconds,
            result.file_daemon_peak_bytes,
            result.storage_daemon_peak_bytes,
            result.stored_bytes,
        )

    return Way(name, run)


def _way_to(port: int, milliseconds: float | None) -> AbstractContextManager[int]:
    """The port to connect to: that of a relay with latency, `port` itself for None."""
    return nullcontext(port) if milliseconds is None else slow_link(port, milliseconds)


def run_in_turns(
    ways: Sequence[Way], rounds: int, place: Place, say: Callable[[str], None]
) -> list[Sample]:
    """Every way once in each round, the order reversed in every second one."""
    samples = []
    for number in range(rounds):
        for way in list(ways)[:: -1 if number % 2 else 1]:
            remove(place.folder)
            begin = time.monotonic()
            try:
                sample = way.run(place, way.name, number)
            finally:
                remove(place.folder)
            samples.append(sample)
            say(
                f"{place.row} round {number + 1}: {way.name}: {sample.wall_seconds:.2f} s, "
                f"{sample.client_cpu_seconds:.2f} + {sample.server_cpu_seconds:.2f} s CPU, "
                f"{sample.stored_bytes / 1e6:,.0f} MB ({time.monotonic() - begin:.0f} s in all)"
            )
    return samples


def _sample(
    place: Place,
    way: str,
    number: int,
    taken: CommandUsage,
    server_cpu_seconds: float,
    server_peak_bytes: int,
    stored_bytes: int,
) -> Sample:
    return Sample(
        place.row,
        way,
        number,
        taken.wall_seconds,
        taken.cpu_seconds,
        server_cpu_seconds,
        max(taken.peak_pss_bytes, taken.largest_process_rss_bytes),
        server_peak_bytes,
        stored_bytes,
    )
