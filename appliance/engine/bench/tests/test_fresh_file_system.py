"""The file system that restores are measured on: new, written as a disk is, gone afterwards."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from kit.daemon_process import wait_for
from strongroom_bench.testbed.fresh_file_system import fresh_file_system

needs_loops = pytest.mark.skipif(
    os.geteuid() != 0 or not os.path.exists("/dev/loop-control"),
    reason="needs root and loop devices",
)


def _devices(image: Path) -> list[str]:
    words = ["losetup", "--list", "--noheadings", "--output", "NAME", "--associated", str(image)]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.split()


@needs_loops
def test_it_is_an_own_one_and_nothing_of_it_is_left(tmp_path: Path) -> None:
    place = tmp_path / "place"
    with fresh_file_system(place, 100, 1_000_000) as mounted:
        if not mounted:
            pytest.skip("this user cannot mount")
        assert place.stat().st_dev != tmp_path.stat().st_dev
        room = os.statvfs(place)
        assert room.f_bavail * room.f_frsize > 1_000_000
        assert room.f_favail > 100
        [device] = _devices(place.with_name("place.ext4"))
        assert str(tmp_path) in _behind(device)
        (place / "file").write_bytes(b"content")
    assert list(tmp_path.iterdir()) == []
    wait_for(lambda: str(tmp_path) not in _behind(device))


@needs_loops
def test_its_device_writes_past_the_page_cache(tmp_path: Path) -> None:
    place = tmp_path / "place"
    with fresh_file_system(place, 100, 1_000_000) as mounted:
        [device] = _devices(place.with_name("place.ext4")) if mounted else [""]
        flag = Path(f"/sys/block/{Path(device).name}/loop/dio")
        if not device or not _takes_direct_writes(tmp_path):
            pytest.skip("this user cannot mount, or the disk has no direct writes")
        assert flag.read_text().strip() == "1"


def test_where_nothing_can_be_mounted_it_is_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess, "run", _only_rm(subprocess.run))
    place = tmp_path / "place"
    with fresh_file_system(place, 100, 1_000_000) as mounted:
        assert not mounted
        (place / "file").write_bytes(b"content")
    assert list(tmp_path.iterdir()) == []


def _behind(device: str) -> str:
    try:
        return Path(f"/sys/block/{Path(device).name}/loop/backing_file").read_text()
    except OSError:
        return ""


def _takes_direct_writes(folder: Path) -> bool:
    try:
        os.close(os.open(folder / "probe", os.O_WRONLY | os.O_CREAT | os.O_DIRECT))
    except OSError:
        return False
    return True


def _only_rm(run):
    def only(command, **options):
        if command[0] != "rm":
            raise FileNotFoundError(command[0])
        return run(["/bin/rm", *command[1:]], **options)

    return only
