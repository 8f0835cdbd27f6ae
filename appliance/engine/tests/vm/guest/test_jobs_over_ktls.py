"""Whole jobs of a director and an agent, with the kernel doing TLS, and what their reports say."""

from __future__ import annotations

import random
import subprocess
import tempfile
from pathlib import Path

import pytest

from kit.house_of_daemons import HouseOfDaemons
from kit.tree_compare import compare_trees
from strongroom.net.channels import ktls

pytestmark = pytest.mark.vm


def test_backup_and_restore_tell_that_the_kernel_did_tls():
    subprocess.run(["modprobe", "tls"], check=True)
    chance = random.Random(1)
    files = {f"{number}": chance.randbytes(400_000) for number in range(20)}
    with (
        tempfile.TemporaryDirectory(dir="/dev/shm") as folder,
        HouseOfDaemons(Path(folder), ("web1",)) as house,
    ):
        house.write_files("web1", files)
        before = ktls.read_counters()
        run = house.run("nightly-web1", level="full")
        assert run["state"] == "done", house.log(run["id"])
        assert run["security"]["mode"] == "ktls"
        assert run["security"]["ktls_send"]
        assert run["security"]["ktls_counted"]
        after = ktls.read_counters()
        assert after.send > before.send
        target = house.folder / "web1" / "restored"
        restored = house.restore(run["snapshot"], target, "web1")
        assert restored["state"] == "done", house.log(restored["id"])
        assert restored["security"]["mode"] == "ktls"
        # What the storage daemon sends goes by sendfile; every byte of it was right.
        assert restored["security"]["peer_ktls_send"]
        found = compare_trees(bytes(house.source("web1")), bytes(house.restored(target, "web1")))
        assert found == []
