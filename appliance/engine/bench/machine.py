"""What the figures were measured on."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path


def _field(path: str, name: str) -> str:
    for line in Path(path).read_text().splitlines():
        key, separator, value = line.partition(":")
        if separator and key.strip() == name:
            return value.strip()
    return "unknown"


def _file_system(folder: Path) -> str:
    answer = subprocess.run(
        ["stat", "--file-system", "--format=%T", folder],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    # coreutils cannot tell the three apart by their magic number; the mount table can.
    if answer != "ext2/ext3":
        return answer
    device = os.stat(folder).st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields = line.split()
        if fields[2] == wanted:
            return fields[fields.index("-") + 1]
    return answer


def describe_machine(work_folder: Path) -> dict[str, str]:
    """Processor, cores, memory, kernel, distribution, Python and file system, each for people."""
    memory_kib = int(_field("/proc/meminfo", "MemTotal").split()[0])
    release = platform.freedesktop_os_release()
    return {
        "processor": _field("/proc/cpuinfo", "model name"),
        "cores": str(len(os.sched_getaffinity(0))),
        "memory": f"{memory_kib / (1 << 20):.0f} GiB",
        "kernel": platform.release(),
        "distribution": release.get("PRETTY_NAME", "unknown"),
        "python": platform.python_version(),
        "file system": _file_system(work_folder),
    }
