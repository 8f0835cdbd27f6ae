"""The benchmark measures what it says, counts right and renders what it counted."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from kit.descriptors import many_descriptors
from strongroom.cli.measure.testbed import command as command_module
from strongroom.cli.measure.testbed.command import (
    CommandError,
    CommandTimeoutError,
    CommandUsage,
    adopted_orphans,
    measure,
)
from strongroom_bench import documents
from strongroom_bench.contenders import BEFORE, CONTENDERS, OURS, STEPS, Place
from strongroom_bench.datasets import (
    DATASETS,
    change_one_percent,
    known_totals,
    prepare,
    tree_totals,
)
from strongroom_bench.errors import OtherConditionsError
from strongroom_bench.places import DOCUMENTS, RESULTS
from strongroom_bench.rows import report
from strongroom_bench.rows.figures import Run, fastest_peer, summarise, times_as_fast
from strongroom_bench.rows.floors import floor_commands
from strongroom_bench.rows.results import RowResult, load_results, save_results, with_steps_of
from strongroom_bench.rows.targets import TARGETS, Target, judge

MB = 1_000_000


def _run(contender: str, step: str, wall: float, number: int = 0, stored: int | None = None) -> Run:
    memory = round(wall * 10 * MB)
    return Run(
        contender, step, number, CommandUsage(wall, wall * 2, memory, memory // 2, 7), stored
    )


def _row(runs: list[Run], name: str = "kernel", scale: float = 1.0) -> RowResult:
    return RowResult(
        row=name,
        title="Kernel | sources",
        date="2026-01-01 00:00 UTC",
        scale=scale,
        entries=1234567,
        file_bytes=5 * MB,
        machine={"processor": "Z80", "cores": "1"},
        versions={"restic": "0.1"},
        runs=runs,
    )


def test_figures_are_medians_with_their_spread() -> None:
    runs = [_run("restic", "first", wall, n, 100 + n) for n, wall in enumerate((5.0, 1.0, 2.0))]
    figure = summarise(runs)["restic", "first"]
    assert (figure.rounds, figure.wall_seconds, figure.cpu_seconds) == (3, 2.0, 4.0)
    assert (figure.fastest_seconds, figure.slowest_seconds) == (1.0, 5.0)
    assert (figure.peak_pss_bytes, figure.stored_bytes) == (20 * MB, 101)
    even = summarise([_run("borg", "first", wall) for wall in (1.0, 2.0, 4.0, 9.0)])
    assert even["borg", "first"].wall_seconds == 3.0
    assert even["borg", "first"].stored_bytes is None


def test_ratios_are_against_the_fastest_peer_and_never_a_floor() -> None:
    figures = summarise(
        [
            _run(OURS, "first", 2.0),
            _run("restic", "first", 6.0),
            _run("borg", "first", 5.0),
            _run("floor: cat", "first", 0.1),
        ]
    )
    assert fastest_peer(figures, "first") == "borg"
    assert times_as_fast(figures, "first") == 2.5
    assert fastest_peer(figures, "restore") is None
    assert times_as_fast(figures, "restore") is None
    assert times_as_fast(summarise([_run("borg", "first", 1.0)]), "first") is None


def test_another_commit_is_no_peer_but_is_compared_with() -> None:
    figures = summarise([_run(OURS, "first", 2.0), _run(BEFORE, "first", 3.0)])
    assert fastest_peer(figures, "first") is None
    assert "now 1.50 times as fast, 0.67 of the CPU time" in report.row_table(figures)


@pytest.mark.parametrize(
    ("target", "figure", "met"),
    [
        (Target("kernel", "first", "speed", 2.5), "2.50 times", True),
        (Target("kernel", "first", "speed", 2.6), "2.50 times", False),
        (Target("kernel", "first", "seconds", 2), "2.000 s", True),
        (Target("kernel", "first", "seconds", 1.9), "2.000 s", False),
        (Target("kernel", "first", "memory", 20), "20 MB", True),
        (Target("kernel", "first", "memory", 19), "20 MB", False),
        (Target("kernel", "first", "stored", 1), "0.90 MB", True),
        (Target("kernel", "first", "stored-share", 0.6), "60.0%", True),
        (Target("kernel", "first", "stored-share", 0.5), "60.0%", False),
        (Target("kernel", "unchanged", "floor-share", 1.5), "1.50 times", True),
        (Target("kernel", "unchanged", "floor-share", 1.4), "1.50 times", False),
        (Target("kernel", "restore", "speed", 1), "not measured", None),
    ],
)
def test_a_target_is_judged_by_its_limit(target: Target, figure: str, met: bool | None) -> None:
    figures = summarise(
        [
            _run(OURS, "first", 2.0, stored=900_000),
            _run("restic", "first", 5.0, stored=1_500_000),
            _run(OURS, "unchanged", 3.0),
            _run("floor: scan", "unchanged", 2.0),
        ]
    )
    verdict = target.verdict(figures)
    assert (verdict.figure, verdict.met) == (figure, met)
    assert verdict.aim.startswith(f"{target.step}: ")


def test_memory_is_judged_by_the_larger_way_of_measuring() -> None:
    run = Run(OURS, "first", 0, CommandUsage(1, 1, 50 * MB, 70 * MB, 3))
    assert Target("kernel", "first", "memory", 60).verdict(summarise([run])).met is False


def test_every_target_names_a_row_and_a_step_that_is_measured() -> None:
    for target in TARGETS:
        assert target.row in DATASETS
        assert target.step in (*STEPS, "help", "snapshots")
    assert judge({}) == []
    assert {verdict.row for verdict in judge({"kernel": {}})} == {"kernel"}


def test_a_table_is_markdown_and_its_cells_stay_in_their_columns() -> None:
    lines = documents.table(["a", "b"], [["x|y", "1"], ["z", "2"]]).splitlines()
    assert lines == ["| a | b |", "|---|---:|", "| x\\|y | 1 |", "| z | 2 |"]
    with pytest.raises(ValueError, match="3 cells under 2"):
        documents.table(["a", "b"], [["1", "2", "3"]])


def test_a_row_s_table_starts_with_us_and_says_the_ratio() -> None:
    runs = [_run("restic", "first", 5.0, stored=264 * MB), _run("floor: cat", "first", 0.5)]
    runs += [_run(OURS, "first", wall, n, 227 * MB) for n, wall in enumerate((1.0, 2.0, 3.0))]
    lines = report.row_table(summarise(runs)).splitlines()[2:]
    assert lines[0] == (
        "| first backup | strongroom | 2.00 (1.00-3.00) | 4.00 | 20 | 10 | 227 | "
        "**2.50 times as fast** |"
    )
    assert lines[1] == "|  | restic | 5.00 | 10.0 | 50 | 25 | 264 | fastest peer |"
    assert lines[2] == "|  | floor: cat | 0.500 | 1.00 | 5.00 | 2.50 |  |  |"


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.0123, "0.012"), (1, "1.00"), (9.994, "9.99"), (123.45, "123.5")]
)
def test_seconds_are_shown_as_exactly_as_they_are_known(seconds: float, text: str) -> None:
    assert documents.seconds_text(seconds) == text


def test_the_document_keeps_its_own_text_around_the_figures(tmp_path: Path) -> None:
    path = tmp_path / "performance.md"
    documents.write_document(path, "first figures", report.INTRODUCTION)
    assert path.read_text().startswith("# Performance")
    path.write_text(path.read_text() + "\n## What bounds it\n\nThe disk.\n")
    documents.write_document(path, "second figures", report.INTRODUCTION)
    text = path.read_text()
    assert "second figures" in text
    assert "first figures" not in text
    assert text.endswith("## What bounds it\n\nThe disk.\n")
    assert text.count(documents.BEGIN) == text.count(documents.END) == 1
    with pytest.raises(ValueError, match="must hold"):
        documents.put_between_markers(f"{documents.END} {documents.BEGIN}", "x")
    with pytest.raises(ValueError, match="must hold"):
        documents.put_between_markers(documents.BEGIN, "x")


def test_figures_tell_date_machine_targets_and_scale() -> None:
    runs = [_run(OURS, "first", 1.0, stored=1), _run("restic", "first", 2.0, stored=1)]
    text = report.figures_text({"kernel": _row(runs, scale=0.5)}, "performance.svg")
    for words in (
        "![", "performance.svg", "2026-01-01", "processor Z80", "restic 0.1", "1,234,567 entries",
        "scale 0.5", "**not met**", "2.00 times", "kernel: first: at least 2.5 times",
    ):  # fmt: skip
        assert words in text
    peers_only = report.figures_text({"kernel": _row([_run("borg", "first", 1.0)])}, None)
    assert "Targets" not in peers_only
    assert "![" not in peers_only


def test_results_are_read_back_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "performance.json"
    assert load_results(path) == {}
    rows = {"kernel": _row([_run(OURS, "first", 1.25, 2, 99), _run("borg", "help", 0.1)])}
    save_results(path, rows)
    assert load_results(path) == rows
    assert os.listdir(tmp_path) == ["performance.json"]


def test_the_page_for_users_compares_the_main_steps() -> None:
    runs = [
        _run(OURS, "first", 1.0, stored=5 * MB),
        _run("restic", "first", 2.5, stored=20 * MB),
        _run("floor: tar", "first", 0.9),
        _run(OURS, "prune", 1.0),
    ]
    start_up = _row([_run(OURS, "unchanged", 1.0)], "startup")
    lines = report.comparison_text({"kernel": _row(runs), "startup": start_up}).splitlines()
    assert lines[2:] == [
        "| Kernel \\| sources | first backup | 1.00 | 2.50 |  |  | 0.900 | **2.5 times as fast** |",
        "",
        "| first backup: MB of memory / MB stored | strongroom | restic | borg | rustic |",
        "|---|---:|---:|---:|---:|",
        "| Kernel \\| sources | 10 / 5.00 | 25 / 20 |  |  |",
    ]


def test_tables_and_picture_of_the_page_for_users_are_those_of_the_results() -> None:
    rows = load_results(RESULTS / "performance.json")
    picture = (DOCUMENTS / "images" / "performance.svg").read_text()
    assert report.comparison_chart(rows) == picture
    assert report.comparison_text(rows) in (DOCUMENTS / "performance.md").read_text()


def test_the_readme_of_the_results_names_every_file() -> None:
    told = (RESULTS / "README.md").read_text()
    files = [file.name for file in RESULTS.iterdir() if file.name != "README.md"]
    assert [name for name in files if f"`{name}`" not in told] == []


def test_steps_measured_later_take_the_place_of_the_same_steps(tmp_path: Path) -> None:
    kept = _row([_run(OURS, "first", 1.0), _run(OURS, "restore", 5.0), _run("borg", "restore", 9)])
    again = [_run(OURS, "first", 2.0), _run(OURS, "restore", 3.0), _run("borg", "restore", 8.0)]
    new = replace(_row(again), date="2026-01-02 00:00 UTC")
    joined = with_steps_of(kept, new, ["restore", "prune"])
    assert joined.runs == [kept.runs[0], *new.runs[1:]]
    assert (joined.date, joined.later) == (kept.date, {"restore": new.date})
    text = report.figures_text({"kernel": joined}, None)
    assert "Measured 2026-01-01 00:00 UTC" in text
    assert "Measured later: restore, 2026-01-02 00:00 UTC." in text
    save_results(tmp_path / "performance.json", {"kernel": joined})
    assert load_results(tmp_path / "performance.json") == {"kernel": joined}


@pytest.mark.parametrize(
    "other",
    [
        {"machine": {"processor": "Z81", "cores": "1"}},
        {"entries": 7},
        {"file_bytes": 7},
        {"scale": 0.5},
    ],
)
def test_steps_under_other_conditions_do_not_stand_beside_each_other(other: dict) -> None:
    new = _row([_run(OURS, "restore", 3.0)])
    [name] = other
    with pytest.raises(OtherConditionsError, match=f"kernel .*with {name}"):
        with_steps_of(replace(new, **other), new, ["restore"])
    with pytest.raises(OtherConditionsError, match="not measured"):
        with_steps_of(None, new, ["restore"])


@pytest.mark.parametrize("versions", [{}, {"restic": "0.2"}])
def test_a_program_is_neither_dropped_nor_joined_with_another_version(versions: dict) -> None:
    kept = _row([_run("restic", "restore", 9.0)])
    new = replace(_row([_run(OURS, "restore", 3.0)]), versions=versions)
    with pytest.raises(OtherConditionsError, match=r"with restic 0\.1, and now with (none|0\.2)"):
        with_steps_of(kept, new, ["restore"])
    assert with_steps_of(kept, new, ["first"]).runs == kept.runs


def test_the_chart_is_well_formed_and_bars_are_in_proportion() -> None:
    walls = {OURS: 1.0, "restic": 4.0, "floor: cat": 2.0}
    runs = [_run(name, "first", wall) for name, wall in walls.items()]
    svg = report.chart({"kernel": summarise(runs)}, {"kernel": "Kernel <sources> & more"})
    root = ET.fromstring(svg)
    bars = [float(bar.get("width", "0")) for bar in root.iter() if bar.get("height") == "14"]
    assert bars[1] == pytest.approx(4 * bars[0])
    assert bars[1] == pytest.approx(2 * bars[2])
    words = "".join(root.itertext())
    assert "first backup" in words
    assert "restore" not in words
    assert "bare floor" in words
    assert "borg" not in words


def test_a_command_s_whole_tree_is_measured(tmp_path: Path) -> None:
    child = "held = bytearray(60_000_000); print(flush=True); input()"
    spin = "import time; end = time.process_time() + 0.3\nwhile time.process_time() < end: pass"
    # Both hold their memory for a second, however busy the machine is.
    script = (
        "import subprocess, sys, time\n"
        f"command = [sys.executable, '-c', {child!r}]\n"
        "pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
        "both = [subprocess.Popen(command, **pipes) for _ in range(2)]\n"
        "for process in both: process.stdout.readline()\n"
        f"spin = {spin!r}\n"
        "in_background = ['sh', '-c', 'exec \"$0\" -c \"$1\" &', sys.executable, spin]\n"
        "orphan = subprocess.Popen(in_background)\n"
        "orphan.wait()\n"
        "time.sleep(1)\n"
        "for process in both: process.communicate(b'end\\n')\n"
    )
    command = [sys.executable, "-c", script]
    with adopted_orphans():
        found = measure(command, os.environ, tmp_path, tmp_path / "log")
    assert 120 * MB < found.peak_pss_bytes < 200 * MB
    assert 60 * MB < found.largest_process_rss_bytes < 100 * MB
    assert 0.6 < found.wall_seconds < 60
    assert found.cpu_seconds > 0.3
    assert found.memory_samples > 3


def test_what_the_runner_holds_is_not_counted(tmp_path: Path) -> None:
    held = bytearray(300 * MB)
    found = measure(["sleep", "0.3"], os.environ, tmp_path, tmp_path / "log")
    assert found.largest_process_rss_bytes < 20 * MB
    assert found.peak_pss_bytes < 20 * MB
    assert len(held) == 300 * MB


def test_children_of_others_are_neither_counted_nor_waited_for(tmp_path: Path) -> None:
    stranger = subprocess.Popen(["sleep", "60"])
    try:
        found = measure(["sleep", "0.1"], os.environ, tmp_path, tmp_path / "log")
        assert found.wall_seconds < 50
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_a_failing_command_says_why(tmp_path: Path) -> None:
    command = ["sh", "-c", "echo no space left; exit 7"]
    with pytest.raises(CommandError, match=r"(?s)exited with 7.*no space left"):
        measure(command, os.environ, tmp_path, tmp_path / "log")


def test_a_command_that_takes_too_long_is_stopped(tmp_path: Path, monkeypatch) -> None:
    """Also one that does not end when it is asked to, with its children."""
    monkeypatch.setattr(command_module, "STOP_SECONDS", 0.5)
    stubborn = "trap '' TERM; sleep 1234 & echo $!; wait; wait; sleep 1234"
    for script in ("exec sleep 1234", stubborn):
        with pytest.raises(CommandTimeoutError, match=r"0\.3 s"):
            measure(["sh", "-c", script], os.environ, tmp_path, tmp_path / "log", 0.3)
    child = int((tmp_path / "log").read_text())
    state = "gone"
    for _ in range(100):
        try:
            state = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            state = "gone"
        if state in ("gone", "Z"):
            break
        time.sleep(0.05)
    assert state in ("gone", "Z")
    measure(["true"], os.environ, tmp_path, tmp_path / "log", 60)


def test_a_command_is_stopped_in_time_however_many_files_are_open(tmp_path: Path) -> None:
    with many_descriptors(), pytest.raises(CommandTimeoutError):
        measure(["sleep", "1234"], os.environ, tmp_path, tmp_path / "log", 0.3)


def test_of_a_stopped_command_nothing_continues(tmp_path: Path) -> None:
    """Also what its first process started, which ends at once and leaves it behind."""
    script = "sleep 1234 & echo $!; wait"
    with adopted_orphans(), pytest.raises(CommandTimeoutError):
        measure(["sh", "-c", script], os.environ, tmp_path, tmp_path / "log", 0.3)
    child = int((tmp_path / "log").read_text())
    assert not Path(f"/proc/{child}").exists()


def test_steps_of_several_commands_add_times_and_keep_the_peak() -> None:
    joined = CommandUsage(1, 2, 30, 4, 5).joined(CommandUsage(10, 20, 3, 40, 50))
    assert joined == CommandUsage(11, 22, 30, 40, 55)


@pytest.mark.parametrize(
    "name", ["media", "empty", pytest.param("small", marks=pytest.mark.slow), "startup"]
)
def test_a_data_set_is_made_once_and_anew_after_it_was_changed(tmp_path: Path, name: str) -> None:
    dataset = DATASETS[name]
    folder = prepare(dataset, tmp_path, 0.002)
    totals = known_totals(folder)
    assert tree_totals(folder) == totals
    made = before = _contents(folder)
    inode = folder.stat().st_ino
    assert prepare(dataset, tmp_path, 0.002) == folder
    assert folder.stat().st_ino == inode
    for _ in range(2):
        changed = change_one_percent(dataset, folder)
        after = _contents(folder)
        assert tree_totals(folder) == totals
        touched = {path for path in after if before.get(path) != after[path]}
        assert len(touched) == changed
        assert 1 <= changed <= max(10, len(after) // 40)
        before = after
    assert before != made
    assert prepare(dataset, tmp_path, 0.002) == folder
    assert _contents(folder) == made
    assert tree_totals(folder) == totals


def test_a_data_set_left_half_made_is_made_again(tmp_path: Path) -> None:
    folder = prepare(DATASETS["startup"], tmp_path, 1)
    next(folder.parent.glob("*.whole.json")).unlink()
    next(folder.iterdir()).unlink()
    assert prepare(DATASETS["startup"], tmp_path, 1) == folder
    assert tree_totals(folder).entries == 100


def _contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_floors_run_over_a_tree(tmp_path: Path) -> None:
    folder = prepare(DATASETS["startup"], tmp_path, 1)
    restored = tmp_path / "restored"
    for name, command in floor_commands(folder, restored, tmp_path / "archive").items():
        if restored.exists():
            assert tree_totals(restored) == tree_totals(folder)
            shutil.rmtree(restored)
        begin = time.perf_counter()
        measured = measure(command, os.environ, tmp_path, tmp_path / f"{name}.log")
        assert 0 < measured.wall_seconds <= time.perf_counter() - begin
    assert tree_totals(restored) == tree_totals(folder)


def test_our_commands_are_those_of_the_command_line(tmp_path: Path) -> None:
    strongroom = Path(sys.executable).with_name("strongroom")
    if not strongroom.exists():
        pytest.skip("strongroom is not installed beside this Python")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{strongroom.parent}:{os.environ['PATH']}")
        contender = CONTENDERS[OURS](tmp_path)
    place = Place(tmp_path / "repository", tmp_path / "data", tmp_path / "restored")
    words = [[c.arguments[1] for c in contender.commands(step, place)] for step in STEPS]
    assert words == [["backup"], ["backup"], ["backup"], ["restore"], ["forget"]]
    assert "--prune" in contender.commands("prune", place)[0].arguments
    assert contender.version[0].isdigit()
