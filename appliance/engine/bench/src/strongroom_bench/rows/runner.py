"""Measure one row: every contender in turns, round after round, on the same data.

Within a round all contenders make a step before any makes the next, so that whatever else the
machine does meets them alike; every second round goes through them in reverse.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from strongroom.cli.measure.testbed.command import CommandUsage, measure
from strongroom.cli.measure.testbed.local import serial_seconds
from strongroom_bench.contenders import STEPS, Command, Contender, Place, measure_commands
from strongroom_bench.datasets import (
    Dataset,
    change_one_percent,
    known_totals,
    prepare,
    tree_totals,
)
from strongroom_bench.machine import describe_machine
from strongroom_bench.rows.figures import Run
from strongroom_bench.rows.floors import floor_commands, read, scan
from strongroom_bench.rows.results import RowResult
from strongroom_bench.testbed.fresh_file_system import fresh_file_system, let_go

START_UP_TURNS = 5
# A small file takes a block, in the page cache too.
BLOCK_BYTES = 4096
ZEROS = bytes(1 << 20)
FLOOR_STEPS = {
    "scan": "unchanged", "read": "first", "cat": "first", "tar": "first",
    "copy": "restore", "untar": "restore",
}  # fmt: skip


class RestoreError(Exception):
    """A contender restored something else than it was given; its figures would be worthless."""


def remove(*folders: Path) -> None:
    """Remove folders; rm is many times as fast as Python at a million files."""
    subprocess.run(["rm", "-rf", "--", *folders], check=True)


def _logged_seconds(log: Path) -> float:
    return float(log.read_text().splitlines()[-1])


@dataclass
class RowRunner:
    """State of measuring one row; `say` gets one line of progress at a time."""

    dataset: Dataset
    contenders: Sequence[Contender]
    work_folder: Path
    scale: float
    steps: frozenset[str]
    with_floors: bool
    say: Callable[[str], None]

    def __post_init__(self) -> None:
        self.runs: list[Run] = []
        self.data = prepare(self.dataset, self.work_folder, self.scale)
        self.totals = known_totals(self.data)
        self.logs = self.work_folder / "logs"
        self.logs.mkdir(exist_ok=True)

    def run(self, repeats: int, again: Collection[str] | None = None) -> RowResult:
        """Measure `repeats` rounds; those after the first are of the contenders `again`, if given.

        One reading beforehand spares the first plain reader the access times that a fresh tree has
        still to be given.
        """
        read(str(self.data))
        # What an interrupted run left behind would be in the way, or fill the disk.
        let_go(self._fresh)
        remove(self.work_folder / "run", self.work_folder / "home")
        for round_number in range(repeats):
            turn = list(self.contenders)[:: -1 if round_number % 2 else 1]
            if round_number and again is not None:
                turn = [one for one in turn if one.name in again]
            places = {contender.name: self._fresh_place(contender) for contender in turn}
            try:
                if self.dataset.name == "startup":
                    self._start_up_round(round_number, turn, places)
                else:
                    self._round(round_number, turn, places)
            finally:
                for place in places.values():
                    remove(place.repository)
                remove(self.work_folder / "home", self._archive)
        return self.result()

    def result(self) -> RowResult:
        """What has been measured so far, and on what."""
        return RowResult(
            row=self.dataset.name,
            title=self.dataset.title,
            date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
            scale=self.scale,
            entries=self.totals.entries,
            file_bytes=self.totals.file_bytes,
            machine=describe_machine(self.work_folder),
            versions={contender.name: contender.version for contender in self.contenders},
            runs=self.runs,
        )

    @property
    def _fresh(self) -> Path:
        """Where restores go."""
        return self.work_folder / "run" / "fresh"

    @property
    def _archive(self) -> Path:
        """What the floor of tar and zstd writes, and reads."""
        return self.work_folder / "run" / "floor.tar.zst"

    def _fresh_place(self, contender: Contender) -> Place:
        folder = self.work_folder / "run"
        folder.mkdir(exist_ok=True)
        place = Place(
            folder / f"{contender.name}.repository",
            self.data,
            self._fresh / f"{contender.name}.restored",
        )
        remove(place.repository)
        Path(contender.environment["HOME"]).mkdir(parents=True, exist_ok=True)
        if commands := contender.initialise(place):
            self._measured(contender, commands, "init")
        return place

    def _measured(
        self, contender: Contender, commands: Sequence[Command], step: str
    ) -> CommandUsage:
        log = self._log(contender, step)
        found = measure_commands(commands, contender.environment, self.work_folder, log)
        if contender.times_itself and step != "init":
            return replace(found, wall_seconds=_logged_seconds(log))
        return found

    def _log(self, contender: Contender, step: str) -> Path:
        return self.logs / f"{self.dataset.name}-{contender.name}-{step}.log"

    def _note(self, run: Run) -> None:
        self.runs.append(run)
        stored = "" if run.stored_bytes is None else f", {run.stored_bytes / 1e6:,.1f} MB stored"
        self.say(
            f"{self.dataset.name} round {run.round_number + 1}: {run.contender} {run.step}: "
            f"{run.measurement.wall_seconds:.2f} s, {run.measurement.cpu_seconds:.2f} s CPU, "
            f"{run.measurement.peak_pss_bytes / 1e6:.0f} MB{stored}"
        )

    def _round(self, number: int, turn: list[Contender], places: dict[str, Place]) -> None:
        archive = "first"
        for step in STEPS:
            if step == "changed" and self.steps & {"changed", "prune"}:
                changed = change_one_percent(self.dataset, self.data)
                self.say(f"{self.dataset.name}: changed {changed} files")
            # prune needs the second snapshot, so `changed` is run for it even when not asked for.
            wanted = self.steps | ({"changed"} if "prune" in self.steps else set()) | {"first"}
            if step not in wanted:
                continue
            if step in ("first", "unchanged", "changed"):
                archive = step
            for contender in turn:
                here = replace(places[contender.name], archive=archive)
                if contender.commands(step, here):
                    self._step(number, contender, step, here)
            if self.with_floors:
                self._floors(number, step)

    def _take_memory(self, folder: Path) -> None:
        """Fill the page cache with twice the tree in `folder`, and give it up again.

        Anyone who comes first would else be measured with what is not its own: the kernel takes the
        memory from what ran before, and a virtual machine gets it from its host.
        """
        filler = folder / "filler"
        with filler.open("wb") as file:
            # Without a name nothing of it stays behind, whatever ends this.
            filler.unlink()
            missing = 2 * (self.totals.file_bytes + self.totals.entries * BLOCK_BYTES)
            while missing > 0:
                missing -= file.write(ZEROS)

    def _warm(self, step: str, stored: Path) -> None:
        """Bring the data back to memory: the run before may have pushed it out of there.

        For a restore, what is stored. Ours writes packs past the page cache, others do not; and
        the kernel gives up pages that were read only once before those of the filler, so it is read
        twice.
        """
        if step == "restore":
            find = ["find", str(stored), "-type", "f", "-exec", "cat", "{}", "+"]
            for _ in range(2):
                subprocess.run(find, stdout=subprocess.DEVNULL, check=True)
        elif step == "first":
            self._take_memory(self.work_folder)
            read(str(self.data))
        elif step in ("unchanged", "changed"):
            scan(str(self.data))

    def _step(self, number: int, contender: Contender, step: str, place: Place) -> None:
        stored_bytes = None
        if step == "restore":
            with self._fresh_file_system():
                self._take_memory(self._fresh)
                self._warm(step, place.repository)
                place.restored.mkdir()
                measurement = self._measured(contender, contender.commands(step, place), step)
                self._check_restored(contender, place.restored)
        else:
            self._warm(step, place.repository)
            measurement = self._measured(contender, contender.commands(step, place), step)
            stored_bytes = tree_totals(place.repository).file_bytes
        serial = serial_seconds(self._log(contender, step))
        self._note(Run(contender.name, step, number, measurement, stored_bytes, serial))

    def _fresh_file_system(self) -> AbstractContextManager[bool]:
        return fresh_file_system(self._fresh, self.totals.entries, self.totals.file_bytes)

    def _check_restored(self, contender: Contender, restored: Path) -> None:
        found = tree_totals(restored)
        if found.file_bytes != self.totals.file_bytes or found.entries < self.totals.entries:
            raise RestoreError(f"{contender.name} restored {found} of {self.totals}")

    def _floors(self, number: int, step: str) -> None:
        restored = self._fresh / "floor.restored"
        environment = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
        for name, command in floor_commands(self.data, restored, self._archive).items():
            if FLOOR_STEPS[name] != step:
                continue
            log = self.logs / f"{self.dataset.name}-floor-{name}.log"
            with self._fresh_file_system():
                if step == "restore":
                    self._take_memory(self._fresh)
                self._warm(step, self.data if name == "copy" else self._archive)
                measurement = measure(command, environment, self.work_folder, log)
            self._note(Run(f"floor: {name}", step, number, measurement))

    def _start_up_round(
        self, number: int, contenders: list[Contender], places: dict[str, Place]
    ) -> None:
        turn = [one for one in contenders if one.start_up(places[one.name])]
        for contender in turn:
            place = places[contender.name]
            self._measured(contender, contender.backup(place), "first")
        for turn_number in range(START_UP_TURNS):
            for contender in turn:
                place = places[contender.name]
                archive = f"unchanged-{turn_number}"
                again = Place(place.repository, place.data, place.restored, archive)
                start_up = contender.start_up(again) | {"unchanged": contender.backup(again)}
                for step, commands in start_up.items():
                    measurement = self._measured(contender, commands, step)
                    self._note(
                        Run(
                            contender.name, step, number * START_UP_TURNS + turn_number, measurement
                        )
                    )
