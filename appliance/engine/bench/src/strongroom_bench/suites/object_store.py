"""`object-store`: what distance costs a repository in an object store, ours beside restic's.

SeaweedFS runs on the same machine, behind a relay whose way there and back takes the delay.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final
from unittest.mock import patch

import msgspec

from strongroom.base import clock
from strongroom.base.errors import UsageError
from strongroom.cli.measure.testbed.link import slow_link
from strongroom_bench.contenders import (
    CONTENDERS,
    OURS,
    Command,
    Contender,
    Place,
    installed_peers,
    measure_commands,
)
from strongroom_bench.datasets import OVERWRITTEN_BYTES, file_sizes
from strongroom_bench.suites.data import make_root
from strongroom_bench.suites.repositories import taken_of
from strongroom_bench.suites.result import Row, Taken, Way, in_turns
from strongroom_bench.testbed.object_server import BUCKET, ENVIRONMENT, seaweedfs

DELAYS: Final = (0.0, 10.0, 50.0)
# Peers whose address of a bucket is spelled as ours understands it too.
PEERS: Final = ("restic",)
ONE_FILE: Final = "one file"
ONE_FILE_ELSEWHERE: Final = "one file, no cache"
STEPS: Final = (
    "first", "unchanged", "changed", ONE_FILE, ONE_FILE_ELSEWHERE, "restore", "prune",
)  # fmt: skip
SEED: Final = (
    "No text: a repository in SeaweedFS on the same machine, behind a relay. The delay is one of a "
    "round trip; a new connection takes one more. Caches are as by default, but where they are "
    "removed first. `changed` is 1% of the files, `prune` keeps the last of three snapshots. "
    "Requests are those that ours prints with -v."
)
_REQUESTS: Final = re.compile(rb'"requests":(\d+)|: ([\d,]+) requests?, ')


def measure_object_store(
    folder: Path,
    scale: float,
    rounds: int,
    tell: Callable[[str], None],
    delays: tuple[float, ...] = DELAYS,
) -> tuple[str, list[Row]]:
    """What was backed up, and the rows. `folder` is new. Raises UsageError."""
    data = make_root(folder / "tree", scale)
    peers = [peer for peer in installed_peers(folder) if peer.name in PEERS]
    contenders = {one.name: one for one in (CONTENDERS[OURS](folder), *peers)}
    rows: list[Row] = []
    with (
        patch.dict(os.environ, ENVIRONMENT),
        contextmanager(seaweedfs)(folder / "server") as server,
    ):
        for delay in delays:
            group = f"{delay:g} ms"
            with slow_link(server.port, delay) as port:
                bench = _Bench(folder, data.folder, f"{group}, ", port, contenders, tell)
                rows += in_turns(group, [Way(name) for name in contenders], rounds, bench.run)
            rows[-len(STEPS) * len(contenders) :] = [
                msgspec.structs.replace(row, figure=bench.requests[row.group])
                if row.condition == OURS
                else row
                for row in rows[-len(STEPS) * len(contenders) :]
            ]
    return data.words, rows


class _Bench:
    """`requests`: what ours asked for, in words, by group."""

    def __init__(
        self,
        folder: Path,
        tree: Path,
        group: str,
        port: int,
        contenders: Mapping[str, Contender],
        tell: Callable[[str], None],
    ) -> None:
        self._folder = folder
        self._tree = tree
        self._group = group
        self._port = port
        self._contenders = contenders
        self._tell = tell
        self._log = folder / "log"
        self.requests: dict[str, str] = {}

    def run(self, way: Way) -> Iterator[tuple[str, Taken]]:
        """Every step, in a new repository."""
        contender = self._contenders[way.name]
        prefix = clock.random_bytes(8).hex()
        # A path would lose a slash of the address, so this is replaced in the commands.
        place = Place(Path("/REPOSITORY"), self._tree, self._folder / "restored")
        address = f"s3:http://127.0.0.1:{self._port}/{BUCKET}/{prefix}"
        try:
            self._measured(contender, contender.initialise(place), address)
            for step in STEPS:
                self._tell(f"{self._group}{way.name}, {step}")
                if step == "changed":
                    _change(self._tree)
                elif step == ONE_FILE_ELSEWHERE:
                    shutil.rmtree(self._folder / "home/cache", ignore_errors=True)
                commands = self._commands(contender, step, replace(place, archive=step))
                yield step, self._measured(contender, commands, address)
                if contender.name == OURS:
                    self.requests[self._group + step] = f"{_requests(self._log)} requests"
                if step == "restore":
                    self._check(place.restored, contender.name)
        finally:
            for path in (place.restored, self._folder / "home"):
                shutil.rmtree(path, ignore_errors=True)

    def _commands(self, contender: Contender, step: str, place: Place) -> list[Command]:
        if step not in (ONE_FILE, ONE_FILE_ELSEWHERE):
            return contender.commands(step, place)
        paths = _files(self._tree)
        words = contender.initialise(place)[0].arguments
        dump = ["dump" if word == "init" else word for word in words]
        return [Command([*dump, "latest", str(paths[len(paths) // 2])])]

    def _measured(self, contender: Contender, commands: list[Command], address: str) -> Taken:
        words = ("-v",) if contender.name == OURS else ()
        placed = [
            Command(
                [address if word == "/REPOSITORY" else word for word in one.arguments] + [*words]
            )
            for one in commands
        ]
        environment = {**contender.environment, **ENVIRONMENT}
        found = measure_commands(placed, environment, self._folder, self._log)
        return taken_of(found, self._log)

    def _check(self, restored: Path, name: str) -> None:
        if sum(file_sizes(restored)) != sum(file_sizes(self._tree)):
            raise UsageError(f"nothing can be measured: {name} restored something else")


def _requests(log: Path) -> int:
    found = _REQUESTS.findall(log.read_bytes())
    return int(b"".join(found[-1]).replace(b",", b"")) if found else 0


def _files(tree: Path) -> list[Path]:
    return sorted(path for path in tree.rglob("*") if path.is_file())


def _change(tree: Path) -> None:
    """One file of a hundred, in its first bytes; sizes stay."""
    for path in _files(tree)[::100]:
        size = min(OVERWRITTEN_BYTES, path.stat().st_size)
        with path.open("r+b") as file:
            file.write(clock.random_bytes(size))
