"""How fast the disk below a folder is: random reads by depth, streams by block size, by fio.

The test file has no name, so that nothing is left behind whatever ends the measurement, and its
size is bounded by what is free. fio makes the reads and writes.
"""

from __future__ import annotations

import errno
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal

from strongroom.base import clock
from strongroom.base.errors import UsageError, os_errors
from strongroom.base.printable import printable
from strongroom.cli.measure.profile import DiskProfile, RandomReads, Streaming
from strongroom.engine.scan.mounts import file_system_type

DEPTHS: Final = (1, 2, 4, 8, 16, 32, 64, 128)
BLOCK_SIZES: Final = (64 << 10, 256 << 10, 1 << 20, 4 << 20)
GREATEST_FILE_BYTES: Final = 1 << 30
LEAST_FILE_BYTES: Final = 64 << 20
# What stays free while the test file is there.
RESERVE_SHARE: Final = 0.05
RESERVE_BYTES: Final = 512 << 20
RANDOM_READ_BYTES: Final = 4096

_WRITE_BYTES: Final = 4 << 20
_MEBIBYTE: Final = 1 << 20


def measure_disk(folder: str, seconds: float, tell: Callable[[str], None]) -> DiskProfile:
    """Measure for `seconds` at each depth and block size; `tell` gets a word on each step.

    Raises UsageError as `require_disk` does.
    """
    require_disk(folder)
    size_bytes = test_file_bytes(folder)
    with _test_file(folder, size_bytes) as (path, is_direct):
        random_reads = []
        for depth in DEPTHS:
            tell(f"random reads, {depth} at once")
            random_reads.append(_random_reads(path, depth, seconds, is_direct))
        streaming = []
        directions: tuple[Literal["read", "write"], ...] = ("read", "write")
        for direction in directions:
            for block_bytes in BLOCK_SIZES:
                tell(f"streaming, {direction} in blocks of {block_bytes >> 10} KiB")
                streaming.append(_stream(path, direction, block_bytes, seconds, is_direct))
    device, rotates = device_of(folder)
    return DiskProfile(
        printable(os.path.abspath(folder)),
        device,
        file_system_of(folder),
        rotates,
        size_bytes,
        is_direct,
        tuple(random_reads),
        tuple(streaming),
    )


def require_disk(folder: str) -> None:
    """Raise UsageError when there is no fio, no room for a test file, or the folder takes none."""
    _require_fio()
    test_file_bytes(folder)
    os.close(_nameless_file(folder))


def test_file_bytes(folder: str) -> int:
    """The size of the test file in a folder. Raises UsageError when there is no room for one."""
    with os_errors(f"{folder} cannot be measured"):
        found = os.statvfs(folder)
    free_bytes = found.f_bavail * found.f_frsize
    reserve_bytes = max(RESERVE_BYTES, int(found.f_blocks * found.f_frsize * RESERVE_SHARE))
    size_bytes = min(GREATEST_FILE_BYTES, (free_bytes - reserve_bytes) // 2)
    size_bytes -= size_bytes % _WRITE_BYTES
    if size_bytes < LEAST_FILE_BYTES:
        least = 2 * LEAST_FILE_BYTES + reserve_bytes
        raise UsageError(
            f"{folder} has {free_bytes // _MEBIBYTE:,} MiB free, and measuring its disk needs "
            f"{least // _MEBIBYTE:,}: name another folder with --dir, or leave the disk out with "
            "--skip disk"
        )
    return size_bytes


def device_of(folder: str) -> tuple[str, bool | None]:
    """Name of the block device below a folder, "" for none; whether it rotates."""
    number = os.stat(folder).st_dev
    place = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
    if not place.exists():
        return "", None
    for queue in (place / "queue", place.resolve().parent / "queue"):
        try:
            return place.resolve().name, (queue / "rotational").read_text().strip() == "1"
        except OSError:
            continue
    return place.resolve().name, None


def file_system_of(folder: str) -> str:
    """The type of the file system that holds a folder, "" where that is not known."""
    path = os.fsencode(os.path.realpath(folder)).strip(b"/")
    return file_system_type(path).decode("ascii", "replace")


def _require_fio() -> None:
    try:
        subprocess.run(["fio", "--version"], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise UsageError(
            "fio is not installed, and measures the disk: `apt-get install fio`, or leave the "
            "disk out with --skip disk"
        ) from error


def _nameless_file(folder: str) -> int:
    with os_errors(
        f"no test file can be made in {printable(folder)}",
        then="; choose another folder with --dir, or leave the disk out with --skip disk",
    ):
        return os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)


@contextmanager
def _test_file(folder: str, size_bytes: int) -> Iterator[tuple[str, bool]]:
    """A file without a name, full of noise; its path for fio, and whether it is read directly."""
    descriptor = _nameless_file(folder)
    try:
        noise = clock.random_bytes(_WRITE_BYTES)
        for _ in range(size_bytes // _WRITE_BYTES):
            os.write(descriptor, noise)
        os.fsync(descriptor)
        path = f"/proc/{os.getpid()}/fd/{descriptor}"
        yield path, _takes_direct(path)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise UsageError(f"{folder} has no space for a test file: {error.strerror}") from error
        raise
    finally:
        os.close(descriptor)


def _takes_direct(path: str) -> bool:
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def _random_reads(path: str, depth: int, seconds: float, is_direct: bool) -> RandomReads:
    found = _fio(
        path,
        seconds,
        is_direct,
        "--rw=randread",
        f"--bs={RANDOM_READ_BYTES}",
        f"--iodepth={depth}",
        "--ioengine=libaio",
        "--randrepeat=0",
        "--percentile_list=50:95:99",
    )["read"]
    percentiles = found["clat_ns"].get("percentile", {})
    p50, p95, p99 = (percentiles.get(f"{one}.000000", 0) / 1000 for one in (50, 95, 99))
    return RandomReads(depth, found["iops"], found["clat_ns"]["mean"] / 1000, p50, p95, p99)


def _stream(
    path: str,
    direction: Literal["read", "write"],
    block_bytes: int,
    seconds: float,
    is_direct: bool,
) -> Streaming:
    # Four under way, as a pipelined program has it: one alone measures the latency.
    options = (f"--rw={direction}", f"--bs={block_bytes}", "--iodepth=4", "--ioengine=libaio")
    found = _fio(path, seconds, is_direct, *options)[direction]
    return Streaming(direction, block_bytes, float(found["bw_bytes"]))


def _fio(path: str, seconds: float, is_direct: bool, *options: str) -> dict[str, Any]:
    command = [
        "fio",
        "--name=strongroom",
        f"--filename={path}",
        "--allow_file_create=0",
        f"--direct={int(is_direct)}",
        "--time_based",
        f"--runtime={max(1, round(seconds))}",
        "--output-format=json",
        *options,
    ]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    try:
        # Notes of fio may be before the object.
        job: dict[str, Any] = json.loads(done.stdout[done.stdout.index(b"{") :])["jobs"][0]
    except (ValueError, KeyError, IndexError) as error:
        raise UsageError(f"fio failed: {_last_line(done.stderr or done.stdout)}") from error
    if job.get("error"):
        raise UsageError(f"fio failed: {os.strerror(job['error'])}")
    return job


def _last_line(text: bytes) -> str:
    lines = text.decode("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else "it printed nothing"
