"""`strongroom bench`, as a user runs it, with hardly any data."""

from __future__ import annotations

import json
import os
import xml.etree.ElementTree as ET

import pytest

from kit.command import Command
from strongroom.cli.main import main
from strongroom.errors import UsageError

FEW = ("--rounds", "1", "--scale", "0.0005")


@pytest.fixture
def command(tmp_path):
    return Command(tmp_path)


@pytest.fixture
def work(tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def test_a_suite_gives_a_table_a_chart_and_pages_and_leaves_nothing(command, work):
    suite = "obnam"
    files = {name: work.parent / f"result.{name}" for name in ("json", "html", "svg", "md")}
    shown = command.run(
        "bench", suite, *FEW, "--work", str(work), "-o", str(files["json"]),
        "--html", str(files["html"]), "--svg", str(files["svg"]), "--markdown", str(files["md"]),
    ).stdout  # fmt: skip
    assert os.listdir(work) == []
    assert "TIMES AS FAST" in shown
    found = json.loads(files["json"].read_text())
    assert found["suite"] == suite
    assert found["seed"] in shown
    # The reference is measured in every group, once in each round.
    for group in {row["group"] for row in found["rows"]}:
        rows = [row for row in found["rows"] if row["group"] == group]
        assert [row["condition"] for row in rows].count(found["reference"]) == 1
        assert all(len(row["seconds"]) == 1 for row in rows)
    assert ET.fromstring(files["svg"].read_text()).tag.endswith("svg")
    page = files["md"].read_text()
    assert f"`strongroom bench {suite}`" in page
    assert "*For administrators of small links, and for developers.*" in page
    assert "](result.svg)" in page
    assert files["html"].read_text().startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nothing"], "nothing is no suite: write one of bacula-latency, bacula-nfs, "),
        (["obnam", "--scale", "2"], "--scale is above 0 and at most 1"),
        (["obnam", "--rounds", "0"], "--rounds is between 1 and 100"),
        (["obnam", "--work", "/none"], "--work /none: No such file or directory"),
        (["obnam", "--delays", "1"], "--delays is for bacula-latency and bacula-nfs, not obnam"),
        (["bacula-nfs", "--delays", "1,x"], "--delays 1,x: write milliseconds of at most 1000"),
        (["bacula-nfs", "--delays", "nan"], "--delays nan: write milliseconds of at most 1000"),
        (["obnam", "--shards", "1"], "--shards is for hashbackup, not obnam"),
        (["hashbackup", "--shards", "1,0"], "--shards 1,0: write numbers of at most 64"),
        (["hashbackup", "--shards", "x"], "--shards x: write numbers of at most 64"),
    ],
)
def test_what_cannot_be_measured_is_one_clear_error(command, words, said):
    assert said in command.run("bench", *words, exit_code=2).stderr


def test_shards_are_those_that_the_suite_measures(monkeypatch, capsys, work):
    def measure(folder, scale, rounds, tell, shards):
        raise UsageError(f"asked for {shards}")

    monkeypatch.setattr("strongroom.measure.suites.hashbackup.measure_hashbackup", measure)
    words = ["bench", "hashbackup", "--shards", "1,16,1", "--work", str(work)]
    assert main(words) == 2
    assert "asked for (1, 16)" in capsys.readouterr().err


def test_delays_are_those_that_the_suite_measures(monkeypatch, capsys, work):
    def measure(folder, scale, rounds, tell, delays):
        raise UsageError(f"asked for {delays}")

    monkeypatch.setattr("strongroom.measure.suites.bacula_latency.measure_nfs", measure)
    words = ["bench", "bacula-nfs", "--delays", "20,0.5", "--work", str(work)]
    assert main(words) == 2
    assert "asked for (20.0, 0.5)" in capsys.readouterr().err
