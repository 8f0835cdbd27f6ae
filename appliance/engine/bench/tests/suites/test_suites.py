"""Every suite, with next to no data: it runs to its end and leaves nothing behind."""

from __future__ import annotations

import io
import os
import shutil
import tarfile
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from strongroom.base.errors import UsageError
from strongroom.cli.measure.processor import machine
from strongroom_bench.contenders import installed_peers
from strongroom_bench.suites import (
    bareos,
    bareos_acl,
    bareos_signature,
    bareos_tls,
    data,
    hashbackup,
    object_store,
    tsm_baseline,
)
from strongroom_bench.suites.catalog import SUITES
from strongroom_bench.suites.report import markdown, suite_page, svg, table_of
from strongroom_bench.suites.result import Row, SuiteResult

SMALL = 0.0002
PEERS = [peer.name for peer in installed_peers(Path("/nowhere"))]


@pytest.fixture(autouse=True)
def no_archive(monkeypatch):
    """Unpacking the kernel's would take longer than everything else."""
    monkeypatch.setattr(data, "_KERNEL", ("/nowhere", "*"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """On a disk: a temporary file system has no extended attributes."""
    return tmp_path


def conditions(rows: list[Row], group: str) -> list[str]:
    return [row.condition for row in rows if row.group == group]


def tell(text: str) -> None:
    assert text


@pytest.mark.slow
def test_codecs_are_measured_on_three_kinds_of_data_in_backup_and_restore(folder):
    words, rows = bareos.measure_compression(folder, SMALL, 1, tell, ("zstd1",), (0, 2))
    ways = ["zstd1, 0 workers", "zstd1, 2 workers"]
    for kind in ("multimedia", "root", "sources"):
        for step in ("backup", "restore"):
            assert conditions(rows, f"{kind}, {step}") == [*ways, *PEERS]
        assert conditions(rows, f"{kind}, workers alone")
        assert conditions(rows, f"{kind}, codecs alone")
    runs = [row for row in rows if not row.group.endswith("alone")]
    assert all(row.content_bytes and row.stored_bytes for row in runs)
    ours = [row for row in runs if row.condition in ways]
    assert all(row.own_reference == ways[0] and row.line == "zstd1" for row in ours)
    assert all(bool(row.serial_seconds) == row.group.endswith("backup") for row in ours)
    sources = [row for row in rows if row.group == "sources, backup"]
    assert sources[0].stored_bytes < sources[0].content_bytes / 1.5
    assert words.count(" files, ") == 3
    # Only data is left, for the caller to remove, and what other programs put into their home.
    assert sorted(set(os.listdir(folder)) - {"home"}) == ["multimedia", "root", "sources"]


@pytest.mark.slow
def test_each_signature_is_measured(folder):
    _, rows = bareos_signature.measure_signature(folder, SMALL, 1, tell, ("none", "blake3"))
    for kind in ("multimedia", "sources"):
        for step in ("backup", "restore"):
            assert conditions(rows, f"{kind}, {step}") == ["none", "blake3"]
        assert conditions(rows, f"{kind}, digests alone") == ["blake3"]


@pytest.mark.slow
def test_attributes_are_measured_where_there_are_some(folder):
    try:
        bareos_acl.make_attributes(folder / "tried", 2)
    except UsageError:
        pytest.skip("the temporary folder takes no extended attributes")
    assert os.listxattr(folder / "tried/000/000001").count("system.posix_acl_access") == 1
    _, rows = bareos_acl.measure_acl_xattr(folder / "new", SMALL, 1, tell)
    stored = {
        row.condition: row.stored_bytes
        for row in rows
        if row.group == "files with attributes and ACLs, backup"
    }
    assert list(stored) == [bareos_acl.KEPT, "no ACLs", "no attributes", "neither"]
    assert conditions(rows, "root, restore")


@pytest.mark.slow
def test_each_cipher_is_measured_through_a_daemon(folder):
    words, rows = bareos_tls.measure_tls(folder, SMALL, 1, tell, ("auto",))
    expected = [
        "tls, auto",
        "off, auto",
        "AES-256-GCM, auto",
        "AES-128-GCM, auto",
        "ChaCha20, auto",
    ]
    for kind in ("multimedia", "sources"):
        assert conditions(rows, f"{kind}, backup")[:5] == expected
        assert all(
            row.own_reference == "tls, auto" and row.serial_seconds
            for row in rows
            if row.group == f"{kind}, backup"
        )
    assert "multimedia" in words
    assert not (folder / "vault").exists()


def test_shards_are_measured_with_memory_and_catalog(folder):
    words, rows = hashbackup.measure_hashbackup(folder, 0.00005, 1, tell)
    assert words == "50 empty files in one directory"
    assert [row.condition for row in rows] == [
        "1 shard", "2 shards", "4 shards", "8 shards", *PEERS,
    ]  # fmt: skip
    assert all("catalog" in row.figure for row in rows)
    assert rows[0].text == "194 s, 113 MB"
    assert ["predicted" in row.figure for row in rows[:4]] == [False, True, True, True]
    assert all(row.serial_seconds for row in rows[:4])


def test_shards_are_predicted_from_the_fewest_up_to_the_cores():
    rows = [
        Row("g", "2 shards", (4.0,), place=2, cpu_seconds=8.0, serial_seconds=1.0),
        Row("g", "4 shards", (2.5,), place=4),
        Row("g", "16 shards", (2.5,), place=16),
        Row("g", "restic", (9.0,)),
    ]
    found = hashbackup.predictions(rows, 4)
    # Two shards: 7 s of 8 shared; four: all cores are busy, and so they are with sixteen.
    assert found == {"4 shards": ", predicted 2.29 s", "16 shards": ", predicted 2.29 s"}


def test_a_part_of_the_kernel_is_chosen_by_name(monkeypatch, tmp_path):
    archive = tmp_path / "linux-source-6.1.tar.xz"
    with tarfile.open(archive, "w:xz") as packed:
        for number in range(200):
            member = tarfile.TarInfo(f"linux/d{number % 7}/f{number}.c")
            member.size = 10
            packed.addfile(member, io.BytesIO(b"0123456789"))
    monkeypatch.setattr(data, "_KERNEL", (str(tmp_path), "linux-source-*.tar.xz"))
    half = data.make_sources(tmp_path / "half", 0.5)
    again = data.make_sources(tmp_path / "again", 0.5)
    assert half.kind == "kernel sources"
    assert 50 < half.files < 150
    assert half[2:] == again[2:]
    assert data.make_sources(tmp_path / "all", 1.0).files == 200


@pytest.mark.slow
def test_steps_in_an_object_store_are_measured_with_their_requests(folder):
    _, rows = object_store.measure_object_store(folder, SMALL, 1, tell, (0.0, 5.0))
    expected = ["strongroom", *(name for name in PEERS if name in object_store.PEERS)]
    assert len(rows) == 2 * len(object_store.STEPS) * len(expected)
    for delay in ("0 ms", "5 ms"):
        for step in object_store.STEPS:
            assert conditions(rows, f"{delay}, {step}") == expected
    ours = [row for row in rows if row.condition == "strongroom"]
    assert all(int(row.figure.removesuffix(" requests")) > 0 for row in ours)
    assert not any(row.figure for row in rows if row not in ours)
    # A delay is paid at least once in each request that waits for the one before.
    by_group = {row.group: row.median_seconds for row in ours}
    assert all(by_group[f"5 ms, {step}"] > 0.005 for step in object_store.STEPS)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("fio") is None, reason="fio is not installed")
def test_the_steps_of_the_guide_end_with_the_backups_that_they_predict(folder):
    _, rows = tsm_baseline.measure_tsm(folder, SMALL, 1, tell, cold=False)
    groups = list(dict.fromkeys(row.group for row in rows))
    assert [group[0] for group in groups] == ["1", "2", "3", "4", "5", "6"]
    assert conditions(rows, "6 backup") == ["full", "incremental 1"]
    assert "predicted" in rows[-2].figure
    assert rows[-2].serial_seconds
    assert conditions(rows, "1 metadata") == ["walk, as it was", "walk, warm"]


@pytest.mark.parametrize("name", list(SUITES))
def test_each_suite_has_a_seed_and_makes_a_table_a_chart_and_pages(name):
    suite = SUITES[name]
    measure, seed, reference = suite.load()
    assert callable(measure)
    rows = (
        Row("data, backup", reference, (2.0, 4.0), content_bytes=6_000_000, stored_bytes=2_000_000),
        Row("data, backup", "<other>", (1.0, 2.0), text="twice as fast"),
    )
    result = SuiteResult(
        name, suite.title, seed, "2026-01-01T00:00:00Z", machine(), 0.1, "data", reference,
        suite.axis, rows,
    )  # fmt: skip
    heads, cells = table_of(result)
    assert heads[-3:] == ("rate", "ratio", "in the text")
    assert cells[0][-3:] == ("2 MB/s", "3.00", "")
    assert cells[1][5] == "2.0 x"
    assert ET.fromstring(svg(result)).tag.endswith("svg")
    assert "twice as fast" in markdown(result)
    assert "&lt;other&gt;" in suite_page(result)
