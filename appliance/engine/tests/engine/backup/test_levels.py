"""Which snapshot a backup compares with, and that it never trusts what it cannot."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from kit.user import User, stored_objects

# Longer than the kernel's clock ticks, so that what was written before counts as settled.
SETTLED_SECONDS = 0.1


@pytest.fixture
def files(source: Path) -> Path:
    for directory in ("a", "b"):
        (source / directory).mkdir()
        for number in range(5):
            (source / directory / f"{number}").write_bytes(os.urandom(1000))
    time.sleep(SETTLED_SECONDS)
    return source


def test_an_unchanged_tree_is_not_read_again(user: User, files: Path) -> None:
    above = _times_above(files)
    first = user.backup(files).summary
    assert (first["parent"], first["level"], first["files_read"]) == (None, "full", 10)
    second = user.backup(files).summary
    assert (second["parent"], second["level"]) == (first["snapshot"], "incremental")
    assert (second["files_read"], second["new_bytes"]) == (0, 0)
    # The folders above are in the snapshot too, and others may have written in them meanwhile.
    assert second["stored_bytes"] == 0 or _times_above(files) != above
    user.assert_restores(files, second["snapshot"])


def _times_above(path: Path) -> list[int]:
    return [folder.lstat().st_mtime_ns for folder in path.parents]


def test_only_what_changed_is_read(user: User, files: Path) -> None:
    user.backup(files)
    (files / "a/1").write_bytes(b"other content")
    (files / "b/new").write_bytes(b"new")
    (files / "b/2").unlink()
    os.rename(files / "a/3", files / "b/moved")
    summary = user.backup(files).summary
    assert (summary["files"], summary["files_read"]) == (10, 3)
    assert summary["new_bytes"] == len(b"other content" + b"new")
    totals = user.snapshots()[-1]
    user.assert_restores(files)
    assert totals["id"] == summary["snapshot"]


@pytest.mark.parametrize(
    "change",
    [
        lambda path: path.chmod(0o600),
        lambda path: os.utime(path, ns=(0, 5)),
        lambda path: os.setxattr(path, "user.x", b"1"),
        lambda path: os.link(path, path.parent / "linked"),
        lambda path: os.rename(path, path.parent / "renamed"),
    ],
    ids=["mode", "mtime", "xattr", "link", "name"],
)
def test_changed_metadata_is_noticed(user: User, files: Path, change) -> None:
    user.backup(files)
    change(files / "a/1")
    user.backup(files)
    user.assert_restores(files)


def test_full_reads_everything_and_stores_nothing_twice(user: User, files: Path) -> None:
    user.backup(files)
    summary = user.backup(files, "--level", "full").summary
    assert (summary["parent"], summary["files_read"], summary["new_bytes"]) == (None, 10, 0)


def test_differential_compares_with_the_last_full_one(user: User, files: Path) -> None:
    full = user.backup(files, "--level", "full").summary["snapshot"]
    (files / "a/1").write_bytes(b"one")
    time.sleep(SETTLED_SECONDS)
    incremental = user.backup(files).summary["snapshot"]
    (files / "a/2").write_bytes(b"two")
    time.sleep(SETTLED_SECONDS)
    summary = user.backup(files, "--level", "differential").summary
    assert (summary["parent"], summary["files_read"]) == (full, 2)
    named = user.backup(files, "--parent", incremental[:10]).summary
    assert (named["parent"], named["files_read"]) == (incremental, 1)
    assert [item["level"] for item in user.snapshots()] == [
        "full", "incremental", "differential", "incremental",
    ]  # fmt: skip
    assert user.backup(files, "--parent", "feed", code=5).error == "snapshot-not-found"
    assert user.backup(files, "--parent", full, "--level", "full", code=2).error == "usage"


def test_the_parent_is_of_the_same_host_job_and_paths(user: User, files: Path) -> None:
    first = user.backup(files, "--host", "one", "--job", "nightly", "--fileset", "Set").summary
    for words in (["--host", "two"], ["--host", "one"], ["--host", "one", "--job", "weekly"]):
        assert user.backup(files, *words).summary["parent"] is None
    assert user.backup(files / "a", "--host", "one", "--job", "nightly").summary["parent"] is None
    same = user.backup(files, "--host", "one", "--job", "nightly", "--fileset", "Other").summary
    assert same["parent"] == first["snapshot"]
    shown = user.snapshots()[0]
    assert (shown["host"], shown["job"], shown["fileset"]) == ("one", "nightly", "Set")


def test_tags_are_kept_and_told(user: User, files: Path) -> None:
    user.backup(files, "--tag", "daily,keep", "--tag", "db")
    assert user.snapshots()[0]["tags"] == ["daily", "db", "keep"]


def test_a_dry_run_stores_nothing_and_says_what_would_be(user: User, files: Path) -> None:
    before = stored_objects(user.repository)
    dry = user.backup(files, "--dry-run").summary
    assert stored_objects(user.repository) == before
    assert (dry["snapshot"], dry["dry_run"], dry["files"], dry["new_bytes"]) == (
        None,
        True,
        10,
        10000,
    )
    real = user.backup(files).summary
    assert dry["new_chunks"] == real["new_chunks"]
    assert 0 < dry["stored_bytes"] <= real["stored_bytes"]
    after = stored_objects(user.repository)
    assert user.backup(files, "-n").summary["files_read"] == 0
    assert stored_objects(user.repository) == after


def test_a_file_rewritten_in_the_parent_s_moment_is_noticed(user: User, files: Path) -> None:
    """Size and mtime are the same, and so may be the ctime: the kernel's clock ticks slowly."""
    path = files / "a/1"
    process = user.start("backup", files)
    while process.poll() is None:
        path.write_bytes(os.urandom(1000))
        os.utime(path, ns=(10**18, 10**18))
    user.end(process)
    for _ in range(2):
        path.write_bytes(os.urandom(1000))
        os.utime(path, ns=(10**18, 10**18))
        user.backup(files)
        user.assert_restores(files)
    time.sleep(SETTLED_SECONDS)
    user.backup(files)
    assert user.backup(files).summary["files_read"] == 0


def test_content_that_the_repository_lost_is_read_again(user: User, files: Path) -> None:
    user.backup(files, "--shards", "1")
    max(user.packs, key=lambda path: path.stat().st_size).unlink()
    summary = user.backup(files).summary
    assert summary["files_read"] == 10
    user.assert_restores(files)


@pytest.mark.parametrize("place", [100, -100])
def test_a_damaged_listing_costs_a_full_read_and_a_warning(
    user: User, files: Path, place: int
) -> None:
    user.backup(files)
    smallest = min(user.packs, key=lambda path: path.stat().st_size)
    data = bytearray(smallest.read_bytes())
    data[60 if place > 0 else len(data) // 3] ^= 1
    smallest.chmod(0o600)
    smallest.write_bytes(data)
    outcome = user.backup(files)
    assert outcome.summary["files_read"] == 10
    assert any("damage" in text for text in outcome.warnings), outcome.warnings
    assert "warning" in outcome.messages


def test_a_damaged_snapshot_does_not_keep_one_from_backing_up(user: User, files: Path) -> None:
    user.backup(files)
    (path,) = (user.repository / "snapshots").iterdir()
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.chmod(0o600)
    path.write_bytes(data)
    outcome = user.backup(files)
    assert (outcome.summary["parent"], outcome.summary["files_read"]) == (None, 10)
    assert len(outcome.warnings) == 1
    path.unlink()
    user.assert_restores(files)
