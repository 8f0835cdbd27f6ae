"""A restore says from the beginning how much there is to do, also of a part of a snapshot."""

import os

import pytest

from kit.hand_backup import back_up
from kit.observed_restore import run_restore
from strongroom.base.progress import CountedProgress
from strongroom.engine.scan.patterns import Patterns


@pytest.fixture
def snapshot(repository, tmp_path):
    tree = tmp_path / "tree"
    for name in ("a", "b", "b/deep", "c"):
        (tree / name).mkdir(parents=True)
        for number in range(20):
            (tree / name / f"file{number}").write_bytes(bytes(1000 + number))
    return back_up(repository, os.fsencode(tree))


def counts_of(repository, snapshot, tmp_path, **choices):
    progress = CountedProgress()
    run_restore(repository, snapshot, tmp_path / "out", progress, **choices)
    return progress.counts()


def below(snapshot, name):
    (root,) = snapshot.paths
    return root + b"/" + name if root else name


@pytest.mark.parametrize(
    ("part", "rows", "size_bytes"),
    [
        (b"b", 42, 2 * sum(range(1000, 1020))),
        (b"c", 21, sum(range(1000, 1020))),
        (b"b/deep/file7", 1, 1007),
    ],
)
def test_the_total_of_a_part_is_known_and_reached(
    repository, snapshot, tmp_path, part, rows, size_bytes
):
    counts = counts_of(repository, snapshot, tmp_path, subpath=below(snapshot, part))
    assert (counts.total_files, counts.total_bytes) == (rows, size_bytes)
    assert counts.bytes == size_bytes
    assert not counts.total_is_estimate


def test_with_patterns_the_total_is_an_estimate(repository, snapshot, tmp_path):
    counts = counts_of(repository, snapshot, tmp_path, excludes=Patterns([(b"file1*", False)]))
    assert counts.total_is_estimate
    assert counts.total_bytes == snapshot.totals.data_bytes
