"""Bacula as a peer: real daemons of Debian's packages, on loopback."""

from __future__ import annotations

import os
import shutil

import pytest

from strongroom_bench.errors import ContenderError
from strongroom_bench.suites.bacula_latency import BACULA, BACULA_NINE, measure_latency
from strongroom_bench.testbed import bacula_packages as packages
from strongroom_bench.testbed.bacula import (
    Bacula,
    BaculaError,
    BaculaSettings,
    installed_bacula,
)

FOLDERS = 3
FILE_BYTES = 2000


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    try:
        return packages.fetch(tmp_path_factory.mktemp("work"))
    except ContenderError as error:
        pytest.skip(str(error))


@pytest.fixture
def tree(tmp_path):
    tree = tmp_path / "tree"
    for number in range(FOLDERS):
        folder = tree / f"folder-{number}"
        folder.mkdir(parents=True)
        (folder / "file").write_bytes(os.urandom(FILE_BYTES))
    return tree


@pytest.mark.parametrize(
    "settings", [BaculaSettings(), BaculaSettings("GZIP", wire=True, tls=True)]
)
def test_jobs_at_once_store_what_each_was_told_and_then_nothing_new(
    programs, tree, tmp_path, settings
):
    jobs = [[folder] for folder in sorted(tree.iterdir())]
    with Bacula(programs, tmp_path / "work", jobs, settings) as bacula:
        first = bacula.run()
        again = bacula.run("Incremental")
        assert bacula.restore(tmp_path / "back") > 0
    assert first.wall_seconds > 0
    assert FOLDERS * FILE_BYTES < first.stored_bytes <= again.stored_bytes
    assert again.stored_bytes < first.stored_bytes + FOLDERS * FILE_BYTES
    # The first job's, and nothing of the others'.
    restored = [path for path in (tmp_path / "back").rglob("*") if path.is_file()]
    assert [path.read_bytes() for path in restored] == [(jobs[0][0] / "file").read_bytes()]


def test_a_job_that_finds_nothing_is_an_error(programs, tree, tmp_path):
    jobs = [[tree / "folder-0"], [tree / "nothing"]]
    with (
        Bacula(programs, tmp_path / "work", jobs) as bacula,
        pytest.raises(BaculaError, match="nothing"),
    ):
        bacula.run()


def test_it_is_found_where_it_was_unpacked(programs, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    assert installed_bacula() is None
    monkeypatch.setenv("PATH", str(programs / "usr/sbin"))
    assert installed_bacula() == programs


@pytest.mark.skipif(
    not (os.access("/dev/fuse", os.W_OK) and shutil.which("fusermount3")), reason="no FUSE here"
)
def test_the_suite_measures_one_job_and_nine(programs, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{programs / 'usr/sbin'}:{os.environ['PATH']}")
    _, rows = measure_latency(tmp_path, 0.005, 1, lambda _: None, (0.1,))
    measured = [(row.group, row.condition) for row in rows if row.condition.startswith("Bacula")]
    assert measured == [
        ("0.1 ms, first", BACULA),
        ("0.1 ms, first", BACULA_NINE),
        ("0.1 ms, unchanged", BACULA),
        ("0.1 ms, unchanged", BACULA_NINE),
    ]
