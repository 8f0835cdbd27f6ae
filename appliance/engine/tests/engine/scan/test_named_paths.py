"""A backup says which of its named paths are empty, and what is mounted there."""

from __future__ import annotations

import os
import subprocess

import pytest

from strongroom.engine.sources.files import look_at


def relative(path) -> bytes:
    return os.fsencode(path).strip(b"/")


def test_empty_directories_are_named(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "full").mkdir()
    (tmp_path / "full/file").touch()
    names = ("empty", "full", "full/file", "gone")
    found = look_at([relative(tmp_path / name) for name in names])
    assert found.empty == {relative(tmp_path / "empty")}
    assert found.summary()["empty_paths"] == [str(tmp_path / "empty")]


def test_what_is_mounted_at_both_ends_of_a_backup_is_named(tmp_path):
    place = tmp_path / "disk"
    place.mkdir()
    words = ["mount", "-t", "tmpfs", "tmpfs", str(place)]
    if os.geteuid() or subprocess.run(words, check=False, capture_output=True).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        (place / "data").mkdir()
        mounted = look_at([relative(place / "data")])
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)
    assert mounted.summary()["mounts"][str(place / "data")] == str(place)
    (place / "data").mkdir()
    later = look_at([relative(place / "data")])
    assert str(place) not in mounted.and_later(later).summary()["mounts"].values()
