"""`make bench SUITE=...`, as a user runs it, with hardly any data."""

from __future__ import annotations

import json
import os
import xml.etree.ElementTree as ET

import pytest

from strongroom.base.errors import UsageError
from strongroom_bench.__main__ import main

FEW = ("--rounds", "1", "--scale", "0.0005")


@pytest.fixture
def work(tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def test_a_suite_gives_a_table_a_chart_and_pages_and_leaves_nothing(capsys, work):
    suite = "obnam"
    files = {name: work.parent / f"result.{name}" for name in ("json", "html", "svg", "md")}
    words = [
        "suites", suite, *FEW, "--work", str(work), "-o", str(files["json"]),
        "--html", str(files["html"]), "--svg", str(files["svg"]), "--markdown", str(files["md"]),
    ]  # fmt: skip
    assert main(words) == 0
    shown = capsys.readouterr().out
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
    assert f"`make bench SUITE={suite}`" in page
    assert "*For administrators of small links, and for developers.*" in page
    assert "](result.svg)" in page
    assert files["html"].read_text().startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nothing"], "nothing is not a suite: write one of bacula-latency, bacula-nfs, "),
        (["obnam", "--scale", "2"], "--scale is above 0 and at most 1"),
        (["obnam", "--rounds", "0"], "--rounds is between 1 and 100"),
        (["obnam", "--work", "/none"], "--work /none: No such file or directory"),
        (
            ["obnam", "--delays", "1"],
            "--delays is for bacula-latency, bacula-nfs, object-store, not obnam",
        ),
        (["bacula-nfs", "--delays", "1,x"], "--delays 1,x: write milliseconds of at most 1000"),
        (["bacula-nfs", "--delays", "nan"], "--delays nan: write milliseconds of at most 1000"),
        (["obnam", "--shards", "1"], "--shards is for hashbackup, not obnam"),
        (["hashbackup", "--shards", "1,0"], "--shards 1,0: write numbers of at most 64"),
        (["hashbackup", "--shards", "x"], "--shards x: write numbers of at most 64"),
    ],
)
def test_what_cannot_be_measured_is_one_clear_error(capsys, words, said):
    with pytest.raises(SystemExit, match="2"):
        main(["suites", *words])
    assert said in capsys.readouterr().err


def test_shards_are_those_that_the_suite_measures(monkeypatch, capsys, work):
    def measure(folder, scale, rounds, tell, shards):
        raise UsageError(f"asked for {shards}")

    monkeypatch.setattr("strongroom_bench.suites.hashbackup.measure_hashbackup", measure)
    words = ["suites", "hashbackup", "--shards", "1,16,1", "--work", str(work)]
    with pytest.raises(SystemExit, match="2"):
        main(words)
    assert "asked for (1, 16)" in capsys.readouterr().err


def test_delays_are_those_that_the_suite_measures(monkeypatch, capsys, work):
    def measure(folder, scale, rounds, tell, delays):
        raise UsageError(f"asked for {delays}")

    monkeypatch.setattr("strongroom_bench.suites.bacula_latency.measure_nfs", measure)
    words = ["suites", "bacula-nfs", "--delays", "20,0.5", "--work", str(work)]
    with pytest.raises(SystemExit, match="2"):
        main(words)
    assert "asked for (20.0, 0.5)" in capsys.readouterr().err
