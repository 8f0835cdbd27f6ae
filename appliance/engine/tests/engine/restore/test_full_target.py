"""A target that can take nothing more ends the restore with a clear error, and it can continue."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.hand_backup import back_up
from kit.observed_restore import run_restore
from strongroom.base.errors import OperatingSystemError


@pytest.fixture
def small_place(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MiB."""
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(place)]
    if os.geteuid() or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("needs the right to mount")
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.mark.parametrize("file_bytes", [100_000, 3_000_000, 80 << 20])
def test_no_space_is_fatal_leaves_nothing_whole_looking_and_can_be_mended(
    repository, tmp_path, small_place, file_bytes
):
    tree = tmp_path / "tree"
    tree.mkdir()
    for number in range(max(2, 8_000_000 // file_bytes)):
        (tree / f"file{number:03}").write_bytes(os.urandom(file_bytes))
    snapshot = back_up(repository, os.fsencode(tree))
    out = small_place / "out"
    with pytest.raises(OperatingSystemError, match="No space left"):
        run_restore(repository, snapshot, out)
    for path in out.iterdir():
        assert path.read_bytes() == (tree / path.name).read_bytes()
    size = "size=400m"
    subprocess.run(["mount", "-o", f"remount,{size}", str(small_place)], check=True)
    assert not run_restore(repository, snapshot, out).problems
    for path in tree.iterdir():
        assert (out / path.name).read_bytes() == path.read_bytes()


def test_a_read_only_target_is_fatal(repository, tmp_path, small_place):
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "file").write_bytes(b"content")
    snapshot = back_up(repository, os.fsencode(tree))
    (small_place / "out").mkdir()
    subprocess.run(["mount", "-o", "remount,ro", str(small_place)], check=True)
    with pytest.raises(OperatingSystemError, match="Read-only"):
        run_restore(repository, snapshot, small_place / "out")
