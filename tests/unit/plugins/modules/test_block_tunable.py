from __future__ import annotations

import pytest
from ansible_collections.strongroom.backup.plugins.modules import block_tunable


@pytest.fixture
def disks(tmp_path):
    """A folder with the files that the kernel has for each disk."""
    for name, rotational, schedulers in [
        ("sda", "1", "[none] mq-deadline"),
        ("sdb", "0", "none [mq-deadline]"),
        ("nvme0n1", "0", "[none] mq-deadline"),
        ("vda", "1", "none [mq-deadline]"),
        ("md0", "1", "none"),
        ("loop0", "1", "[none]"),
        ("sr0", "1", "[mq-deadline]"),
    ]:
        queue = tmp_path / "sys/block" / name / "queue"
        queue.mkdir(parents=True)
        (queue / "rotational").write_text(rotational + "\n")
        (queue / "scheduler").write_text(schedulers + "\n")
        (queue / "read_ahead_kb").write_text("128\n")
        (queue / "nr_requests").write_text("64\n")
    return tmp_path


def test_devices_are_told_by_kind_and_what_is_no_disk_is_left_out(disks, run_module):
    told = run_module(block_tunable, root=str(disks))
    assert not told["changed"]
    assert {one["device"]: one["kind"] for one in told["devices"]} == {
        "sda": "hdd",
        "sdb": "ssd",
        "nvme0n1": "nvme",
        "vda": "virtual",
        "md0": "array",
    }
    sda = next(one for one in told["devices"] if one["device"] == "sda")
    assert sda["scheduler"] == "none"
    assert sda["schedulers"] == ["none", "mq-deadline"]


def test_only_disks_of_the_kind_are_changed_and_a_second_run_changes_nothing(disks, run_module):
    kinds = {"hdd": {"read_ahead_kib": 4096}, "array": {"read_ahead_kib": 8192}}
    told = run_module(block_tunable, root=str(disks), kinds=kinds)
    assert told["changed"]
    after = {one["device"]: one["read_ahead_kib"] for one in told["devices"]}
    assert after == {"sda": 4096, "sdb": 128, "nvme0n1": 128, "vda": 128, "md0": 8192}
    assert told["diff"]["after"] == "md0 read_ahead_kib = 8192\nsda read_ahead_kib = 4096\n"
    again = run_module(block_tunable, root=str(disks), kinds=kinds)
    assert not again["changed"]
    assert {entry["state"] for entry in again["report"]} == {"as wanted"}


def test_check_mode_changes_nothing(disks, run_module):
    told = run_module(block_tunable, root=str(disks), kinds={"nvme": {"read_ahead_kib": 256}}, check=True)
    assert told["changed"]
    assert told["report"] == [
        {
            "setting": "nvme0n1 read_ahead_kib",
            "wanted": "256",
            "effective": "128",
            "state": "to change",
            "note": "",
        }
    ]
    assert (disks / "sys/block/nvme0n1/queue/read_ahead_kb").read_text() == "128\n"


def test_a_kind_that_does_not_exist_is_refused(disks, run_module):
    told = run_module(block_tunable, root=str(disks), kinds={"tape": {"read_ahead_kib": 1}})
    assert told["failed"]
    assert "tape" in told["msg"]
