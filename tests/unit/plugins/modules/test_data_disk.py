from __future__ import annotations

import os
import shutil

import pytest
from ansible_collections.strongroom.backup.plugins.modules import data_disk

pytestmark = pytest.mark.skipif(
    not (shutil.which("mkfs.xfs", path=os.environ["PATH"] + ":/usr/sbin:/sbin")), reason="no xfsprogs"
)
SIZE = 400_000_000


@pytest.fixture
def disk(tmp_path):
    path = tmp_path / "disk"
    with open(path, "wb") as file:
        file.truncate(SIZE)
    return path


def beginning(disk):
    with open(disk, "rb") as file:
        return file.read(20_000_000)


def used_bytes(disk):
    return os.stat(disk).st_blocks * 512


def test_an_empty_disk_gets_a_file_system_once(disk, run_module):
    planned = run_module(data_disk, device=str(disk), format=True, check=True)
    assert planned["changed"]
    assert used_bytes(disk) == 0
    made = run_module(data_disk, device=str(disk), format=True)
    assert made["changed"]
    again = run_module(data_disk, device=str(disk), format=True)
    assert not again["changed"]
    assert again["uuid"] == made["uuid"] != ""


def test_an_empty_disk_is_left_alone_unless_it_is_to_be_formatted(disk, run_module):
    told = run_module(data_disk, device=str(disk))
    assert told["failed"]
    assert used_bytes(disk) == 0


@pytest.mark.parametrize(
    ("place", "data", "named"),
    [
        (12_345_678, b"rows of a database", "not known"),
        (1080, b"\x53\xef", "data"),
        (510, b"\x55\xaa", "data"),
        (0, b"LUKS\xba\xbe\x00\x02" + bytes(4088), "crypto_LUKS"),
        (536, b"LVM2 001", "LVM2_member"),
    ],
)
def test_a_disk_with_data_is_never_formatted(disk, run_module, place, data, named):
    with open(disk, "r+b") as file:
        if named == "LVM2_member":
            file.seek(512)
            file.write(b"LABELONE" + (1).to_bytes(8, "little") + bytes(8) + b"LVM2 001")
        file.seek(place)
        file.write(data)
    before = beginning(disk)
    told = run_module(data_disk, device=str(disk), format=True)
    assert told["failed"]
    assert "nothing was changed" in told["msg"]
    assert beginning(disk) == before


def test_a_device_that_does_not_exist_is_named(tmp_path, run_module):
    told = run_module(data_disk, device=str(tmp_path / "nothing"), format=True)
    assert told["failed"]
    assert "nothing" in told["msg"]
