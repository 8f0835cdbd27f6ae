"""`bacula-latency` and `bacula-nfs`: one job with scan threads against nine jobs made by hand.

The text: a site whose Bacula read NFSv4 file systems of a NAS far below the rate of the link,
because every file costs round trips, and that split its job into many to hide them. In the first
suite a FUSE file system sleeps before every answer; the second has the kernel's NFSv4 over a link
that delays.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Final

from strongroom.base import clock
from strongroom.base.errors import UsageError
from strongroom.cli.measure.testbed.command import MemorySampler
from strongroom.cli.measure.testbed.daemons import plain_environment
from strongroom.cli.measure.testbed.local import local_backup, make_local
from strongroom_bench.contenders import Command, Contender, Place, installed_peers, measure_commands
from strongroom_bench.suites.repositories import taken_of
from strongroom_bench.suites.result import Row, Taken, Way, counted, in_turns
from strongroom_bench.testbed.bacula import Bacula, installed_bacula
from strongroom_bench.testbed.delayed_mount import delayed_mount
from strongroom_bench.testbed.nfs_files import nfs_mount, require_nfs

DELAYS: Final = (0.2, 1.0, 5.0)
FILES: Final = 5000
DIRECTORIES: Final = 45
JOBS: Final = 9
FILE_BYTES: Final = 1024
NINE: Final = "nine jobs by hand"
BACULA: Final = "Bacula, one job"
BACULA_NINE: Final = "Bacula, nine jobs by hand"
_TEXT: Final = (
    "Users of Bacula 7.4.4 with NFSv4 file systems on a NAS, mailing list 2016 (msg65689): backups "
    "ran far below the rate of the link, which tar reached; latency of metadata operations bounds "
    "them, so jobs were split by hand to have more of them under way. Theirs were an EMC VNX5200 "
    "behind 10 Gbit/s, a server with 6 cores of 3.4 GHz and 128 GB, spooling to SSDs and an LTO-6 "
    "drive; the latency is not stated; "
)
_RATIOS: Final = (
    "so only the ratios say something. Our files are noise. Serial of the nine jobs is that of the "
    "slowest. Bacula has a director, a storage and a file daemon on the same machine, which are "
    "started before; it neither deduplicates nor encrypts."
)
SEED: Final = f"{_TEXT}ours is a FUSE file system that sleeps before each answer, {_RATIOS}"
NFS_SEED: Final = (
    f"{_TEXT}ours are server and client of NFSv4.2 in one kernel, and netem delays the packets "
    f"between them, {_RATIOS}"
)
_FAR_BELOW: Final = "one job: far below the rate of the link"
_FASTER: Final = "faster than one job"
WAYS: Final = (
    Way(NINE),
    *(
        Way(
            f"one job, {counted(threads, 'scan thread')}", ("--scan-threads", str(threads)), threads
        )
        for threads in (1, 4, 16, 64)
    ),
    Way("one job, by itself"),
)
_TEXTS: Final = {
    ("first", WAYS[1].name): _FAR_BELOW,
    ("first", NINE): _FASTER,
    ("first", BACULA): _FAR_BELOW,
    ("first", BACULA_NINE): _FASTER,
}


def measure_latency(
    folder: Path,
    scale: float,
    rounds: int,
    tell: Callable[[str], None],
    delays: tuple[float, ...] = DELAYS,
) -> tuple[str, list[Row]]:
    """What was backed up, and the rows. `folder` is new. Raises UsageError."""
    return _measured(folder, scale, rounds, tell, delays, delayed_mount)


def measure_nfs(
    folder: Path,
    scale: float,
    rounds: int,
    tell: Callable[[str], None],
    delays: tuple[float, ...] = DELAYS,
) -> tuple[str, list[Row]]:
    """As `measure_latency`, by NFS; a delay is one of a round trip."""
    require_nfs()
    return _measured(folder, scale, rounds, tell, delays, nfs_mount)


def _measured(
    folder: Path,
    scale: float,
    rounds: int,
    tell: Callable[[str], None],
    delays: tuple[float, ...],
    mount: Callable[[Path, Path, float], AbstractContextManager[None]],
) -> tuple[str, list[Row]]:
    files = max(JOBS, round(FILES * scale))
    tree = folder / "tree"
    _make_tree(tree, files)
    rows: list[Row] = []
    peers = {peer.name: peer for peer in installed_peers(folder)}
    bacula = installed_bacula()
    ways = [*WAYS, *map(Way, peers), *map(Way, (BACULA, BACULA_NINE) if bacula else ())]
    for delay in delays:
        bench = _Bench(folder, tree, delay, files, tell, mount, peers, bacula)
        rows += in_turns(f"{delay:g} ms", ways, rounds, bench.run, texts=_TEXTS)
    return f"{files:,} files of 1 KiB in {DIRECTORIES} directories", rows


class _Bench:
    def __init__(
        self,
        folder: Path,
        tree: Path,
        delay: float,
        files: int,
        tell: Callable[[str], None],
        mount: Callable[[Path, Path, float], AbstractContextManager[None]],
        peers: Mapping[str, Contender],
        bacula: Path | None,
    ) -> None:
        self._peers = peers
        self._bacula_root = bacula
        self._folder = folder
        self._tree = tree
        self._delay = delay
        self._files = files
        self._tell = tell
        self._mount = mount
        self._environment = plain_environment(folder / "home")

    def run(self, way: Way) -> Iterator[tuple[str, Taken]]:
        """A first backup into a new repository, then one that finds nothing new."""
        place, mount = self._folder / "run", self._folder / "mount"
        peer = self._peers.get(way.name)
        is_incremental = peer is None or peer.is_incremental
        try:
            if peer is not None:
                place.mkdir()
                of_peer = Place(place / "peer", mount, place / "restored")
                self._measured(peer.initialise(of_peer), place, peer.environment)
            elif way.name not in (BACULA, BACULA_NINE):
                make_local(place)
            for backup in ("first", "unchanged") if is_incremental else ("first",):
                self._tell(f"{self._delay:g} ms, {way.name}, {backup}")
                # A new mount each time: what the kernel has cached of it is gone.
                with self._mount(self._tree, mount, self._delay):
                    if peer is not None:
                        command = peer.backup(replace(of_peer, archive=backup))
                        taken = self._measured(command, place, peer.environment)
                    elif way.name == NINE:
                        taken = self._nine(place, mount)
                    elif way.name in (BACULA, BACULA_NINE):
                        taken = self._bacula(place, mount, way.name, backup)
                    else:
                        ours = [Command(local_backup(place, *way.words, str(mount)))]
                        taken = self._measured(ours, place, self._environment)
                yield backup, taken
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def _measured(
        self, commands: list[Command], place: Path, environment: Mapping[str, str]
    ) -> Taken:
        found = measure_commands(commands, environment, self._folder, place / "log")
        return taken_of(found, place / "log")

    def _bacula(self, place: Path, mount: Path, name: str, backup: str) -> Taken:
        assert self._bacula_root is not None
        jobs = [[mount]] if name == BACULA else self._parts(mount)
        level = "Full" if backup == "first" else "Incremental"
        os.sync()
        with MemorySampler() as sampler, Bacula(self._bacula_root, place, jobs) as bacula:
            result = bacula.run(level)
        cpu_seconds = (
            result.file_daemon_cpu_seconds
            + result.storage_daemon_cpu_seconds
            + result.director_cpu_seconds
        )
        return Taken(result.wall_seconds, sampler.peak_bytes, cpu_seconds=cpu_seconds)

    def _parts(self, mount: Path) -> list[list[Path]]:
        """What each of nine jobs backs up."""
        names = sorted(path.name for path in self._tree.iterdir())
        return [[mount / name for name in names[job::JOBS]] for job in range(JOBS)]

    def _nine(self, place: Path, mount: Path) -> Taken:
        # As `measure` does it for the one job.
        os.sync()
        with MemorySampler() as sampler:
            begin = clock.elapsed_seconds()
            parts = self._parts(mount)
            jobs = [self._part(place, job, paths) for job, paths in enumerate(parts)]
            held = 0
            serial = 0.0
            try:
                for process in jobs:
                    output, _ = process.communicate()
                    if process.returncode:
                        raise UsageError(f"nothing can be measured: {output}")
                    summary = json.loads(output.splitlines()[-1])
                    held += int(summary["files"])
                    serial = max(serial, float(summary["coordinator_seconds"]))
            finally:
                for process in jobs:
                    if process.poll() is None:
                        process.terminate()
                        process.wait()
            elapsed = clock.elapsed_seconds() - begin
        if held != self._files:
            raise UsageError("nothing can be measured: a job missed files")
        return Taken(elapsed, sampler.peak_bytes, serial_seconds=serial)

    def _part(self, place: Path, job: int, paths: list[Path]) -> subprocess.Popen[str]:
        words = ("--scan-threads", "1", "--shards", "1", "--job", f"part{job}")
        return subprocess.Popen(
            local_backup(place, *words, *map(str, paths)),
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )


def _make_tree(tree: Path, files: int) -> None:
    for number in range(DIRECTORIES):
        (tree / f"directory-{number:02}").mkdir(parents=True)
    for number in range(files):
        path = tree / f"directory-{number % DIRECTORIES:02}" / f"file-{number:06}"
        path.write_bytes(clock.random_bytes(FILE_BYTES))
