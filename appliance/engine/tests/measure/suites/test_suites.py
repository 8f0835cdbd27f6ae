"""Every suite, with next to no data: it runs to its end and leaves nothing behind."""

from __future__ import annotations

import os
import shutil
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING

import pytest

from strongroom.measure.processor import machine
from strongroom.measure.suites import bareos, bareos_tls, hashbackup, tsm_baseline
from strongroom.measure.suites.catalog import SUITES
from strongroom.measure.suites.peers import installed_peers
from strongroom.measure.suites.report import markdown, suite_page, svg, table_of
from strongroom.measure.suites.result import Row, SuiteResult

if TYPE_CHECKING:
    from pathlib import Path

SMALL = 0.0002
PEERS = [peer.name for peer in installed_peers()]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """On a disk: a temporary file system has no extended attributes."""
    return tmp_path


def conditions(rows: list[Row], group: str) -> list[str]:
    return [row.condition for row in rows if row.group == group]


def tell(text: str) -> None:
    assert text


def test_codecs_are_measured_on_three_kinds_of_data_in_backup_and_restore(folder):
    data, rows = bareos.measure_compression(folder, SMALL, 1, tell, ("zstd1",), (0, 2))
    ways = ["zstd1, 0 workers", "zstd1, 2 workers"]
    for kind in ("multimedia", "root", "sources"):
        for step in ("backup", "restore"):
            assert conditions(rows, f"{kind}, {step}") == [*ways, *PEERS]
    assert all(row.content_bytes and row.stored_bytes for row in rows)
    sources = [row for row in rows if row.group == "sources, backup"]
    assert sources[0].stored_bytes < sources[0].content_bytes / 1.5
    assert data.count(" files, ") == 3
    # Only data is left, for the caller to remove, and what other programs put into their home.
    assert sorted(set(os.listdir(folder)) - {"home"}) == ["multimedia", "root", "sources"]


def test_each_signature_is_measured(folder):
    _, rows = bareos.measure_signature(folder, SMALL, 1, tell, ("none", "blake3"))
    for kind in ("multimedia", "sources"):
        for step in ("backup", "restore"):
            assert conditions(rows, f"{kind}, {step}") == ["none", "blake3"]


def test_attributes_are_measured_where_there_are_some(folder):
    try:
        os.setxattr(folder, "user.strongroom.measured", b"")
    except OSError:
        pytest.skip("the temporary folder takes no extended attributes")
    _, rows = bareos.measure_acl_xattr(folder, SMALL, 1, tell)
    stored = {
        row.condition: row.stored_bytes
        for row in rows
        if row.group == "files with attributes, backup"
    }
    assert list(stored) == [bareos.KEPT, "no ACLs", "no attributes", "neither"]


def test_each_cipher_is_measured_through_a_daemon(folder):
    data, rows = bareos_tls.measure_tls(folder, SMALL, 1, tell, ("auto",))
    expected = [
        "tls, auto",
        "off, auto",
        "AES-256-GCM, auto",
        "AES-128-GCM, auto",
        "ChaCha20, auto",
    ]
    for kind in ("multimedia", "sources"):
        assert conditions(rows, f"{kind}, backup")[:5] == expected
    assert "multimedia" in data
    assert not (folder / "vault").exists()


def test_shards_are_measured_with_memory_and_catalog(folder):
    data, rows = hashbackup.measure_hashbackup(folder, 0.00005, 1, tell)
    assert data == "50 empty files in one directory"
    assert [row.condition for row in rows] == [
        "1 shard", "2 shards", "4 shards", "8 shards", *PEERS,
    ]  # fmt: skip
    assert all("catalog" in row.figure for row in rows)
    assert rows[0].text == "194 s, 113 MB"


@pytest.mark.skipif(shutil.which("fio") is None, reason="fio is not installed")
def test_the_steps_of_the_guide_end_with_the_backups_that_they_predict(folder):
    _, rows = tsm_baseline.measure_tsm(folder, SMALL, 1, tell)
    groups = list(dict.fromkeys(row.group for row in rows))
    assert [group[0] for group in groups] == ["1", "2", "3", "4", "5", "6"]
    assert conditions(rows, "6 backup") == ["full", "incremental 1"]
    assert "predicted" in rows[-2].figure


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
