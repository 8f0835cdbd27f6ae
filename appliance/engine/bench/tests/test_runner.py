"""A row is run in turns, on fresh repositories, and a wrong restore voids it; tar is in."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from kit.daemon_process import wait_for
from strongroom_bench.contenders import Command, Contender, Place
from strongroom_bench.datasets import DATASETS, known_totals
from strongroom_bench.rows.results import RowResult
from strongroom_bench.rows.runner import RestoreError, RowRunner
from strongroom_bench.testbed.fresh_file_system import let_go

ALL_STEPS = frozenset({"first", "unchanged", "changed", "restore", "prune"})


def _tar(name: str, work_folder: Path, lost: str = "") -> Contender:
    """A contender that keeps an archive a backup; `lost` is a name it forgets to restore."""

    def shell(script: str, place: Place) -> list[Command]:
        words = [place.repository, place.data, place.restored, place.archive]
        return [Command(["sh", "-ec", script, *map(str, words)])]

    home = work_folder / "home"
    home.mkdir(parents=True, exist_ok=True)
    exclude = f"--exclude='{lost}'" if lost else ""
    return Contender(
        name=name,
        version="1",
        program="tar",
        environment={"PATH": os.environ["PATH"], "HOME": str(home)},
        initialise=lambda place: shell('mkdir "$0"', place),
        backup=lambda place: shell('tar -C "$1" -cf "$0/$3.tar" .', place),
        restore=lambda place: shell(f'tar -C "$2" {exclude} -xf "$0/$3.tar"', place),
        prune=lambda place: shell('rm "$0/first.tar"', place) + shell("true", place),
        start_up=lambda place: {"help": shell("true", place), "snapshots": shell('ls "$0"', place)},
    )


def _row(
    work_folder: Path,
    contenders: list[Contender],
    *,
    steps: frozenset[str] = ALL_STEPS,
    row: str = "small",
    repeats: int = 2,
    again: list[str] | None = None,
) -> tuple[RowResult, list[str]]:
    said: list[str] = []
    runner = RowRunner(DATASETS[row], contenders, work_folder, 0.001, steps, True, said.append)
    return runner.run(repeats, again), said


def _processes_that_name(folder: Path) -> list[bytes]:
    found = []
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found.append(line.read_bytes())
    return [words for words in found if os.fsencode(folder) in words]


def _turns(result: RowResult, step: str) -> list[tuple[int, str]]:
    return [
        (run.round_number, run.contender)
        for run in result.runs
        if run.step == step and not run.contender.startswith("floor")
    ]


def test_contenders_take_turns_and_every_second_round_is_reversed(tmp_path: Path) -> None:
    result, said = _row(tmp_path, [_tar("a", tmp_path), _tar("b", tmp_path)])
    for step in ALL_STEPS:
        assert _turns(result, step) == [(0, "a"), (0, "b"), (1, "b"), (1, "a")]
    floors = {run.contender for run in result.runs} - {"a", "b"}
    assert floors - {"floor: tar", "floor: untar"} == {
        "floor: scan", "floor: read", "floor: cat", "floor: copy"
    }  # fmt: skip
    assert ("floor: tar" in floors) == ("floor: untar" in floors) == bool(shutil.which("zstd"))
    assert len(said) >= len(result.runs)


def test_later_rounds_are_of_those_that_are_named_and_of_the_floors(tmp_path: Path) -> None:
    contenders = [_tar("a", tmp_path), _tar("b", tmp_path)]
    result, _ = _row(tmp_path, contenders, steps=frozenset({"first"}), repeats=3, again=["b"])
    assert _turns(result, "first") == [(0, "a"), (0, "b"), (1, "b"), (2, "b")]
    assert [run.round_number for run in result.runs if run.contender == "floor: read"] == [0, 1, 2]


def test_stored_size_is_the_repository_s_after_each_step(tmp_path: Path) -> None:
    result, _ = _row(tmp_path, [_tar("a", tmp_path)], repeats=1)
    stored = {run.step: run.stored_bytes for run in result.runs if run.contender == "a"}
    one = stored["first"]
    assert one
    assert one > 1_000_000
    assert stored == {
        "first": one, "unchanged": 2 * one, "changed": 3 * one, "restore": None, "prune": 2 * one,
    }  # fmt: skip


def test_nothing_but_data_and_logs_is_left_behind(tmp_path: Path) -> None:
    (tmp_path / "run" / "gone.repository").mkdir(parents=True)
    result, _ = _row(tmp_path, [_tar("a", tmp_path)])
    assert not any((tmp_path / "run").iterdir())
    assert sorted(os.listdir(tmp_path)) == ["data", "logs", "run"]
    totals = known_totals(tmp_path / "data" / "small-0.001")
    assert (result.entries, result.file_bytes) == (totals.entries, totals.file_bytes)
    assert {"processor", "cores", "memory", "kernel", "file system"} <= set(result.machine)


def test_what_a_killed_run_left_mounted_is_no_obstacle(tmp_path: Path) -> None:
    place = tmp_path / "run" / "fresh"
    place.mkdir(parents=True)
    words = ["mount", "-t", "tmpfs", "none", str(place)]
    if subprocess.run(words, check=False, capture_output=True).returncode:
        pytest.skip("this user cannot mount")
    try:
        _row(tmp_path, [_tar("a", tmp_path)], steps=frozenset({"restore"}), repeats=1)
        assert not any((tmp_path / "run").iterdir())
    finally:
        let_go(place)


def test_a_run_that_is_ended_leaves_nothing_mounted_and_nothing_running(tmp_path: Path) -> None:
    words = "rows --rows media --scale 0.02 --steps restore --contenders strongroom --print"
    command = [
        sys.executable,
        "-m",
        "strongroom_bench",
        *words.split(),
        "--work-folder",
        str(tmp_path),
    ]
    place = tmp_path / "run" / "fresh"
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path}
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as bench:
        wait_for(lambda: place.is_mount() or bench.poll() is not None)
        if bench.poll() is not None:
            assert bench.returncode == 0
            pytest.skip("this user cannot mount")
        for _ in range(2):
            bench.send_signal(signal.SIGTERM)
        assert bench.wait() == 128 + signal.SIGTERM
    assert not place.is_mount()
    assert not place.exists()
    assert not _processes_that_name(tmp_path)


def test_a_restore_that_lacks_a_file_voids_the_row(tmp_path: Path) -> None:
    with pytest.raises(RestoreError, match="b restored"):
        _row(tmp_path, [_tar("a", tmp_path), _tar("b", tmp_path, lost="note-0500.txt")])
    assert not any((tmp_path / "run").iterdir())


def test_a_step_that_a_contender_has_not_is_left_out(tmp_path: Path) -> None:
    lacking = replace(_tar("b", tmp_path), prune=lambda _: [], start_up=lambda _: {})
    contenders = [_tar("a", tmp_path), lacking]
    result, _ = _row(tmp_path, contenders, repeats=1)
    assert _turns(result, "prune") == [(0, "a")]
    assert _turns(result, "restore") == [(0, "a"), (0, "b")]
    start_up, _ = _row(tmp_path, contenders, row="startup", repeats=1)
    assert {run.contender for run in start_up.runs} == {"a"}


def test_the_seconds_that_a_contender_tells_count(tmp_path: Path) -> None:
    def backup(place: Place) -> list[Command]:
        (place.repository / "volume").touch()
        return [Command(["printf", "the job is done\\n1234.5\\n"])]

    telling = replace(_tar("a", tmp_path), backup=backup, times_itself=True)
    result, _ = _row(tmp_path, [telling], steps=frozenset({"first"}), repeats=1)
    (run,) = (run for run in result.runs if run.contender == "a")
    assert run.measurement.wall_seconds == 1234.5


def test_only_the_steps_asked_for_are_measured_with_what_they_need(tmp_path: Path) -> None:
    contenders = [_tar("a", tmp_path)]
    first, _ = _row(tmp_path, contenders, steps=frozenset({"first"}), repeats=1)
    assert {run.step for run in first.runs} == {"first"}
    prune, _ = _row(tmp_path, contenders, steps=frozenset({"prune"}), repeats=1)
    assert {run.step for run in prune.runs} == {"first", "changed", "prune"}


def test_start_up_is_measured_in_turns_of_short_commands(tmp_path: Path) -> None:
    contenders = [_tar("a", tmp_path), _tar("b", tmp_path)]
    result, _ = _row(tmp_path, contenders, row="startup", repeats=1)
    assert {run.step for run in result.runs} == {"help", "snapshots", "unchanged"}
    assert _turns(result, "help") == [(turn, name) for turn in range(5) for name in "ab"]
