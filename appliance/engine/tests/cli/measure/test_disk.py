"""The disk: refused without room, and nothing is left behind."""

import os
import signal
import subprocess
import sys
import time

import pytest

from strongroom.base.errors import UsageError
from strongroom.cli.measure.disk import (
    BLOCK_SIZES,
    DEPTHS,
    LEAST_FILE_BYTES,
    file_system_of,
    measure_disk,
    require_disk,
)
from strongroom.cli.measure.disk import test_file_bytes as file_bytes


def silent(text):
    """What is reported each step is not shown."""
    assert text


@pytest.fixture
def small(tmp_path):
    """A file system of 32 MiB."""
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=32m", "strongroom-test", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("this user cannot mount")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_disk_without_room_is_refused(small):
    with pytest.raises(UsageError, match=r"MiB free.*--skip disk"):
        require_disk(str(small))
    with pytest.raises(UsageError, match=r"MiB free.*--skip disk"):
        measure_disk(str(small), 1, silent)
    assert list(small.iterdir()) == []


def test_the_file_system_is_that_of_the_folder():
    # That of the mount, and not of the root.
    assert file_system_of("/dev/shm") == "tmpfs"
    assert file_system_of("/proc/self") == "proc"


def test_the_test_file_is_bounded(tmp_path):
    found = os.statvfs(tmp_path)
    assert LEAST_FILE_BYTES <= file_bytes(str(tmp_path)) <= found.f_bavail * found.f_frsize // 2


def test_every_depth_and_block_size_is_measured(tmp_path):
    steps = []
    disk = measure_disk(str(tmp_path), 0.2, steps.append)
    assert tuple(one.depth for one in disk.random_reads) == DEPTHS
    assert all(one.reads_per_second > 0 for one in disk.random_reads)
    assert all(0 < one.p50_us <= one.p95_us <= one.p99_us for one in disk.random_reads)
    for direction in ("read", "write"):
        of_one = [one for one in disk.streaming if one.direction == direction]
        assert tuple(one.block_bytes for one in of_one) == BLOCK_SIZES
        assert all(one.bytes_per_second > 0 for one in of_one)
    assert len(steps) == len(DEPTHS) + 2 * len(BLOCK_SIZES)
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_left_when_it_is_killed(tmp_path):
    free_before = os.statvfs(tmp_path).f_bavail
    code = (
        "from strongroom.cli.measure.disk import measure_disk\n"
        f"measure_disk({str(tmp_path)!r}, 30, print)"
    )
    process = subprocess.Popen(
        [sys.executable, "-u", "-c", code], stdout=subprocess.PIPE, start_new_session=True
    )
    assert process.stdout is not None
    assert b"random reads" in process.stdout.readline()
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert list(tmp_path.iterdir()) == []
    # The kernel frees the file soon after.
    deadline = time.monotonic() + 60
    while os.statvfs(tmp_path).f_bavail < free_before - (256 << 20) // 4096:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_folder_that_takes_no_files_is_refused():
    with pytest.raises(UsageError, match="/proc"):
        measure_disk("/proc", 1, silent)
