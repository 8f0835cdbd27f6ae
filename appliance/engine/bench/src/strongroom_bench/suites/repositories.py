"""Backups and restores of ours and of peers, each into a fresh repository."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from strongroom.cli.measure.testbed.command import CommandUsage
from strongroom.cli.measure.testbed.daemons import plain_environment
from strongroom.cli.measure.testbed.local import STRONGROOM, serial_seconds
from strongroom.engine.stores.local_place import RESERVE
from strongroom_bench.contenders import (
    PASSWORD,
    Command,
    Contender,
    Place,
    installed_peers,
    measure_commands,
)
from strongroom_bench.datasets import file_sizes, tree_totals
from strongroom_bench.suites.data import Data
from strongroom_bench.suites.result import Row, Taken, Way, in_turns
from strongroom_bench.testbed.fresh_file_system import fresh_file_system

BACKUP: Final = "backup"
RESTORE: Final = "restore"


class Fresh:
    """Measures in `folder`, which is left empty again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._repository = folder / "repository"
        self._fresh = folder / "fresh"
        self._sizes: dict[Path, tuple[int, int]] = {}

    def ours(self, data: Path, *words: str, restores: bool = True) -> Iterator[tuple[str, Taken]]:
        """A first backup with these options and, with `restores`, its restore.

        Where root may mount, a restore has its own file system.
        """
        place = ["--repo", str(self._repository), "--no-cache"]
        restore = ("restore", *place, "latest", "--target", str(self._restored))
        commands = [
            [Command([*STRONGROOM, "init", *place])],
            [Command([*STRONGROOM, "backup", "--json", "-q", *place, *words, str(data)])],
            [Command([*STRONGROOM, *restore])],
        ]
        environment = plain_environment(self._folder / "home", STRONGROOM_PASSWORD=PASSWORD)
        yield from self._run(commands, environment, data if restores else None)

    def peer(
        self, peer: Contender, data: Path, *, restores: bool = True
    ) -> Iterator[tuple[str, Taken]]:
        """The same by another program."""
        place = Place(self._repository, data, self._restored)
        commands = [peer.initialise(place), peer.backup(place), peer.restore(place)]
        yield from self._run(commands, peer.environment, data if restores else None)

    def _run(
        self,
        commands: Sequence[list[Command]],
        environment: Mapping[str, str],
        restored: Path | None,
    ) -> Iterator[tuple[str, Taken]]:
        prepare, back_up, restore = commands
        try:
            self._measure(prepare, environment)
            yield BACKUP, self._measure(back_up, environment)
            if restored is not None:
                with fresh_file_system(self._fresh, *self._size(restored)):
                    self._restored.mkdir()
                    taken = self._measure(restore, environment)
                yield RESTORE, taken
        finally:
            for path in self._folder.iterdir():
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)

    @property
    def _restored(self) -> Path:
        return self._fresh / "restored"

    def _size(self, data: Path) -> tuple[int, int]:
        """Entries and bytes."""
        if data not in self._sizes:
            totals = tree_totals(data)
            self._sizes[data] = totals.entries, totals.file_bytes
        return self._sizes[data]

    def _measure(self, commands: list[Command], environment: Mapping[str, str]) -> Taken:
        log = self._folder / "log"
        found = measure_commands(commands, environment, self._folder, log)
        return taken_of(found, log, _stored_in(self._repository))


def measure_ways(
    folder: Path,
    group: str,
    data: Data,
    ways: Sequence[Way],
    rounds: int,
    tell: Callable[[str], None],
    texts: Mapping[tuple[str, str], str],
    *,
    with_peers: bool = True,
) -> list[Row]:
    """Backup and restore of the data, in each way and by the peers that are installed."""
    place = folder / "run"
    place.mkdir()
    fresh = Fresh(place)
    peers = {peer.name: peer for peer in installed_peers(place)} if with_peers else {}

    def run(way: Way) -> Iterator[tuple[str, Taken]]:
        tell(f"{group}, {way.name}")
        if way.name in peers:
            yield from fresh.peer(peers[way.name], data.folder)
        else:
            yield from fresh.ours(data.folder, *way.words)

    everything = [*ways, *(Way(name) for name in peers)]
    rows = in_turns(group, everything, rounds, run, data.size_bytes, texts)
    place.joinpath("log").unlink(missing_ok=True)
    place.rmdir()
    return rows


def taken_of(found: CommandUsage, log: Path, stored_bytes: int = 0) -> Taken:
    """What a command took whose output went to `log`."""
    serial = serial_seconds(log) or 0.0
    return Taken(found.wall_seconds, found.peak_pss_bytes, stored_bytes, found.cpu_seconds, serial)


def _stored_in(repository: Path) -> int:
    """The bytes of a repository, without the space that ours reserves for a full disk."""
    reserve = repository / os.fsdecode(RESERVE)
    return sum(file_sizes(repository)) - (reserve.stat().st_size if reserve.exists() else 0)
