"""What explains Bareos's figures, on small data."""

from __future__ import annotations

import pytest

from strongroom_bench.suites.causes import (
    codec_rows,
    digest_rows,
    sample_files,
    small_share,
    worker_rows,
)
from strongroom_bench.suites.result import Row


@pytest.fixture
def folder(tmp_path):
    """Three small files and one of three blocks."""
    place = tmp_path / "data"
    for number in range(3):
        path = place / f"d{number}" / "small"
        path.parent.mkdir(parents=True)
        path.write_bytes(b"small %d\n" % number * 1000)
    (place / "large").write_bytes(b"large\n" * 120_000)
    return place


def test_small_files_are_counted_by_number_and_by_bytes(folder):
    files, size = small_share(folder, 256 << 10)
    assert files == 3 / 4
    assert 0.03 < size < 0.05
    assert small_share(folder, 1 << 30) == (1.0, 1.0)
    assert small_share(folder, 1) == (0.0, 0.0)


def test_a_sample_has_whole_files_and_is_the_same_each_time(folder):
    assert sorted(map(len, sample_files(folder))) == [8000, 8000, 8000, 720_000]
    assert sorted(map(len, sample_files(folder, 20_000))) == [8000, 8000]
    assert sample_files(folder, 20_000) == sample_files(folder, 20_000)


def test_workers_are_measured_with_a_wait_after_each_file_and_without(folder):
    rows = worker_rows("sources", folder, 2, ("zstd1",))
    assert {row.group for row in rows} == {"sources, workers alone"}
    assert [row.figure for row in rows[:2]] == ["75.0% of files, 3.2% of bytes"] * 2
    assert [row.condition for row in rows[:2]] == ["files below 256 KiB", "files below 512 KiB"]
    measured = rows[2:]
    assert all(len(row.seconds) == 2 and row.content_bytes == 744_000 for row in measured)
    assert {row.own_reference for row in measured} == {
        "zstd1, 1 thread, a wait after each file", "zstd1, 1 thread, blocks of many files",
    }  # fmt: skip
    assert all(any(one.condition == row.own_reference for one in measured) for row in measured)


def test_codecs_are_measured_by_block_and_file_by_file(folder):
    rows = codec_rows("sources", folder, 1)
    names = [row.condition for row in rows]
    for name in ("lz4 block", "lz4 frame", "lz4 as Bareos wraps it"):
        assert [f"{name}, {size} KiB" in names for size in ("64", "256", "1,024")] == [True] * 3
    assert all(row.stored_bytes < row.content_bytes for row in rows)
    for row in rows:
        assert row.figure.endswith("us to begin a block") != row.condition.endswith("alone")
    alone = next(row for row in rows if row.condition == "lz4 block, each file alone")
    assert alone.text.startswith("0.7 ms a file")


def test_a_digest_that_takes_less_than_runs_differ_cannot_be_seen():
    unsigned = Row("g", "none", (1.0, 100.0))
    (row,) = digest_rows("media", 1_000_000, unsigned, ("none", "blake3"), 2)
    assert row.condition == "blake3"
    assert len(row.seconds) == 2
    assert row.figure.endswith("equal runs differ by 99.00 s: cannot be seen")
    (row,) = digest_rows("media", 1 << 40, Row("g", "none", (1.0, 1.0)), ("sha512",), 1)
    assert row.figure.endswith(": can be seen")
