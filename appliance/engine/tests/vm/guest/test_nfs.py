"""The kernel's NFS as a source of backups, and the suite that measures it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from strongroom_bench.suites.bacula_latency import NINE, WAYS, measure_nfs
from strongroom_bench.testbed.nfs_files import nfs_mount

pytestmark = pytest.mark.vm


@pytest.fixture(autouse=True)
def _server():
    subprocess.run(["systemctl", "start", "nfs-server"], check=True)


def counted_calls():
    """Calls that the server has answered."""
    for line in Path("/proc/net/rpc/nfsd").read_text().splitlines():
        words = line.split()
        if words[0] == "rpc":
            return int(words[1])
    raise AssertionError("the server counts nothing")


def test_a_folder_is_mounted_by_nfs_and_nothing_stays_behind(tmp_path):
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "file").write_bytes(b"content")
    place = tmp_path / "mount"
    before = counted_calls()
    with nfs_mount(tree, place, 1):
        assert (place / "file").read_bytes() == b"content"
        assert " nfs4 " in next(
            line for line in Path("/proc/mounts").read_text().splitlines() if str(place) in line
        )
        with pytest.raises(OSError, match="Read-only"):
            (place / "other").touch()
    assert counted_calls() > before
    assert sorted(os.listdir(tmp_path)) == ["tree"]
    for command in (["exportfs"], ["ip", "netns"], ["ip", "-br", "link", "show", "type", "veth"]):
        assert subprocess.run(command, capture_output=True, check=True).stdout == b""


def test_each_way_backs_up_all_files_of_an_nfs_server_twice(tmp_path):
    before = counted_calls()
    data, rows = measure_nfs(tmp_path, 0.005, 1, print, (1.0,))
    assert data == "25 files of 1 KiB in 45 directories"
    assert [row.condition for row in rows] == [way.name for way in WAYS] * 2
    assert {row.group for row in rows} == {"1 ms, first", "1 ms, unchanged"}
    assert rows[0].condition == NINE
    assert counted_calls() - before > 25 * len(rows)
