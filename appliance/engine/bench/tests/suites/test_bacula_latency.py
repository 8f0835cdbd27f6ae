"""The suite bacula-latency on a real file system that answers late."""

from __future__ import annotations

import os
import shutil

import pytest

from strongroom.base.errors import UsageError
from strongroom_bench.contenders import installed_peers
from strongroom_bench.suites.bacula_latency import NINE, WAYS, measure_latency, measure_nfs


@pytest.mark.slow
@pytest.mark.skipif(
    not (os.access("/dev/fuse", os.W_OK) and shutil.which("fusermount3")), reason="no FUSE here"
)
def test_each_way_backs_up_all_files_twice(tmp_path, monkeypatch):
    monkeypatch.setattr("strongroom_bench.suites.bacula_latency.installed_bacula", lambda: None)
    told = []
    data, rows = measure_latency(tmp_path, 0.005, 1, told.append, (0.1,))
    assert data == "25 files of 1 KiB in 45 directories"
    peers = installed_peers(tmp_path)
    ours = [way.name for way in WAYS]
    # Bacula takes seconds a job; see tests/test_bacula.py.
    assert [row.condition for row in rows] == [
        *ours, *(peer.name for peer in peers),
        *ours, *(peer.name for peer in peers if peer.is_incremental),
    ]  # fmt: skip
    assert {row.group for row in rows} == {"0.1 ms, first", "0.1 ms, unchanged"}
    assert rows[0].condition == NINE
    assert all(row.seconds[0] > 0 for row in rows)
    assert len(told) == len(rows)
    # Only the tree is left, and what a peer makes at home.
    assert set(os.listdir(tmp_path)) - {"home"} == {"tree"}


@pytest.mark.skipif(os.path.exists("/proc/fs/nfsd/threads"), reason="an NFS server runs here")
def test_without_a_server_of_nfs_it_says_what_is_missing(tmp_path):
    with pytest.raises(UsageError, match="nfs-kernel-server"):
        measure_nfs(tmp_path, 0.005, 1, print)
    assert os.listdir(tmp_path) == []
