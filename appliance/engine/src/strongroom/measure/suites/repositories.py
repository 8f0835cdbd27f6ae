"""Backups and restores of ours and of peers, each into a fresh repository."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Final

from strongroom.errors import UsageError
from strongroom.measure.suites.peers import installed_peers
from strongroom.measure.suites.result import Taken, Way, in_turns
from strongroom.measure.testbed.command import CommandError, measure
from strongroom.measure.testbed.daemons import plain_environment
from strongroom.measure.testbed.fresh_file_system import fresh_file_system
from strongroom.measure.testbed.local import STRONGROOM, serial_seconds
from strongroom.stores.local_place import RESERVE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from strongroom.measure.suites.data import Data
    from strongroom.measure.suites.peers import Peer
    from strongroom.measure.suites.result import Row
    from strongroom.measure.testbed.command import CommandUsage

_PASSWORD: Final = "of a measurement"  # noqa: S105 - of a repository that is thrown away
BACKUP: Final = "backup"
RESTORE: Final = "restore"


class Fresh:
    """Measures in `folder`, which is left empty again."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self._environment = dict(environment)
        self._repository = folder / "repository"
        self._fresh = folder / "fresh"
        self._sizes: dict[Path, tuple[int, int]] = {}

    def ours(self, data: Path, *words: str, restores: bool = True) -> Iterator[tuple[str, Taken]]:
        """A first backup with these options and, with `restores`, its restore.

        Where root may mount, a restore has a file system of its own.
        """
        place = ["--repo", str(self._repository), "--no-cache"]
        commands = [
            [*STRONGROOM, "init", *place],
            [*STRONGROOM, "backup", "--json", *place, *words, str(data)],
            [*STRONGROOM, "restore", *place, "latest", "--target", str(self._restored)],
        ]
        environment = {"STRONGROOM_PASSWORD": _PASSWORD}
        yield from self._run(commands, environment, data if restores else None)

    def peer(self, peer: Peer, data: Path, *, restores: bool = True) -> Iterator[tuple[str, Taken]]:
        """The same by another program."""
        commands = [
            peer.prepare(self._repository),
            peer.back_up(self._repository, data),
            peer.restore(self._repository, self._restored),
        ]
        yield from self._run(commands, peer.environment, data if restores else None)

    def _run(
        self, commands: Sequence[list[str]], environment: Mapping[str, str], restored: Path | None
    ) -> Iterator[tuple[str, Taken]]:
        prepare, back_up, restore = commands
        everything = {**self._environment, **environment}
        try:
            self._measure(prepare, everything)
            yield BACKUP, self._measure(back_up, everything)
            if restored is not None:
                with fresh_file_system(self._fresh, *self._size(restored)):
                    self._restored.mkdir()
                    taken = self._measure(restore, everything)
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
            entries = sum(len(folders) + len(names) for _, folders, names in os.walk(data))
            self._sizes[data] = entries, size_of(data)
        return self._sizes[data]

    def _measure(self, command: list[str], environment: Mapping[str, str]) -> Taken:
        try:
            log = self._folder / "log"
            found = measure(command, environment, self._folder, log)
        except CommandError as error:
            raise UsageError(f"nothing can be measured: {error}") from error
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
    fresh = Fresh(place, plain_environment(folder / "home"))
    peers = {peer.name: peer for peer in installed_peers()} if with_peers else {}

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


def size_of(folder: Path) -> int:
    """The bytes of all files below `folder`."""
    return sum(
        os.lstat(os.path.join(parent, name)).st_size
        for parent, _, names in os.walk(folder)
        for name in names
    )


def _stored_in(repository: Path) -> int:
    """The bytes of a repository, without the space that ours reserves for a full disk."""
    reserve = repository / os.fsdecode(RESERVE)
    return size_of(repository) - (reserve.stat().st_size if reserve.exists() else 0)
