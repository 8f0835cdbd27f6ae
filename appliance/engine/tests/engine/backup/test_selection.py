"""What a backup leaves out, and what it never does."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import pytest

from kit.user import User

TAG = b"Signature: 8a477f597d28d172789f06886806bc55\n"


def fill(source: Path, *names: str, size: int = 10) -> None:
    for name in names:
        path = source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(size))


def test_everything_is_kept_unless_told_otherwise(user: User, source: Path) -> None:
    fill(source, "a", "b/c", "b/.hidden", "b/d/e.tmp")
    user.backup(source)
    assert user.names(source) == {"a", "b", "b/c", "b/.hidden", "b/d", "b/d/e.tmp"}


def test_patterns_exclude_names_directories_and_paths(user: User, source: Path) -> None:
    fill(source, "a.tmp", "A.TMP", "b/c.tmp", "b/keep.tmp", "cache/x", "b/cache", "b/d/f", "e/d/f")
    outcome = user.backup(
        source, "-e", "*.tmp", "--exclude", "!keep.tmp", "-e", "cache/", "-e", f"{source}/b/d"
    )
    assert user.names(source) == {"A.TMP", "b", "b/keep.tmp", "b/cache", "e", "e/d", "e/d/f"}
    assert outcome.summary["files"] == 4


def test_patterns_may_ignore_case_and_come_from_files(user: User, source: Path) -> None:
    fill(source, "a.TMP", "b.LOG", "c.log", "d.Bak", "e")
    plain, folded = user.folder / "plain", user.folder / "folded"
    plain.write_text("# comment\n\n*.log\n")
    folded.write_text("*.BAK\n")
    user.backup(source, "--iexclude", "*.tmp", "--exclude-file", plain, "--iexclude-file", folded)
    assert user.names(source) == {"b.LOG", "e"}


def test_a_pattern_file_that_is_not_there_ends_the_job(user: User, source: Path) -> None:
    outcome = user.backup(source, "--exclude-file", user.folder / "missing", code=2)
    assert outcome.error == "usage"
    assert user.snapshots() == []


def test_cache_directories_keep_their_tag_only(user: User, source: Path) -> None:
    fill(source, "cache/data", "liar/data", "cache/deep/er")
    (source / "cache/CACHEDIR.TAG").write_bytes(TAG)
    (source / "liar/CACHEDIR.TAG").write_bytes(b"no such signature")
    user.backup(source, "--exclude-caches")
    assert user.names(source) == {
        "cache", "cache/CACHEDIR.TAG", "liar", "liar/data", "liar/CACHEDIR.TAG",
    }  # fmt: skip
    user.backup(source)
    assert "cache/data" in user.names(source)


def test_a_marker_file_excludes_its_directory(user: User, source: Path) -> None:
    fill(source, "a/data", "b/data", "c/data")
    (source / "a/.nobackup").touch()
    (source / "b/.marker").write_text("SKIP this")
    (source / "c/.marker").write_text("keep this")
    user.backup(source, "--exclude-if-present", ".nobackup", "--exclude-if-present", ".marker:SKIP")
    assert user.names(source) == {
        "a", "a/.nobackup", "b", "b/.marker", "c", "c/data", "c/.marker",
    }  # fmt: skip


def test_size_limits_hold_for_files_only(user: User, source: Path) -> None:
    for size in (0, 10, 1024, 1025, 5000):
        fill(source, f"{size}", size=size)
    (source / "directory").mkdir()
    (source / "link").symlink_to("x" * 2000)
    user.backup(source, "--exclude-larger-than", "1K", "--exclude-smaller-than", "10")
    assert user.names(source) == {"10", "1024", "directory", "link"}
    for wrong in ("x", "-1", "1Q", "1.5K"):
        user.backup(source, f"--exclude-larger-than={wrong}", code=2)
    user.backup(source, "--exclude-larger-than", "1", "--exclude-smaller-than", "2", code=2)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_one_file_system_stops_at_mounts(user: User, source: Path) -> None:
    fill(source, "a/inside")
    (source / "mounted").mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "none", source / "mounted"], check=False).returncode:
        pytest.skip("this sandbox does not let us mount")
    try:
        fill(source, "mounted/other")
        user.backup(source, "-x")
        assert user.names(source) == {"a", "a/inside", "mounted"}
        user.backup(source)
        assert "mounted/other" in user.names(source)
        user.backup(source, source / "mounted/other", "--one-file-system")
        user.backup(source / "mounted", "-x")
        assert user.names(source / "mounted") == {"other"}
    finally:
        subprocess.run(["umount", source / "mounted"], check=True)


def test_special_files_are_kept_but_never_opened(user: User, source: Path) -> None:
    os.mkfifo(source / "fifo")  # no one writes to it: opening it would wait forever
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(source / "socket"))
        if os.geteuid() == 0:
            os.mknod(source / "device", 0o20600, os.makedev(1, 3))
        user.backup(source)
        listed = user.listed(below=source)
        assert listed["fifo"]["kind"] == "fifo"
        assert "socket" not in listed
        user.assert_restores(source)


def test_several_paths_one_below_another_and_single_files(user: User, source: Path) -> None:
    fill(source, "a/b/c", "a/d", "e/f", "g", "h")
    outcome = user.backup(source / "a/b", source / "a/b/c", source / "e", source / "g")
    assert user.names(source) == {"a", "a/b", "a/b/c", "e", "e/f", "g"}
    assert user.snapshots()[-1]["paths"] == [str(source / name) for name in ("a/b", "e", "g")]
    assert outcome.summary["files"] == 3


def test_relative_paths_and_links_on_the_way_are_resolved(user: User, source: Path) -> None:
    fill(source, "real/file")
    (source / "link").symlink_to("real")
    (user.folder / "shortcut").symlink_to(source)
    # The link itself leads to more than what is backed up.
    user.backup("shortcut/link/file", "shortcut/link", code=3)
    assert user.names(source) == {"link", "real", "real/file"}
    assert user.listed(below=source)["link"]["kind"] == "symlink"


def test_where_no_path_is_there_the_job_ends(user: User, source: Path) -> None:
    outcome = user.backup(source / "missing", source / "away", code=4)
    assert outcome.error == "source"
    assert "missing" in outcome.messages
    assert user.snapshots() == []
    assert user.backup(code=2).error == "usage"


def test_names_of_any_bytes_are_told_and_kept(user: User, source: Path) -> None:
    name = bytes(range(1, 47)) + b"\xff\n"
    (Path(os.fsdecode(os.fsencode(source) + b"/" + name))).write_bytes(b"x")
    user.backup(os.fsencode(source) + b"/" + name)
    user.assert_restores(source)
