"""What the figures were measured on."""

from __future__ import annotations

import platform
from pathlib import Path

from strongroom.cli.measure.disk import file_system_of
from strongroom.cli.measure.processor import machine


def describe_machine(work_folder: Path) -> dict[str, str]:
    """Processor, cores, memory, kernel, distribution, Python and file system, each for people."""
    here = machine()
    return {
        "processor": here.processor,
        "cores": str(here.cores),
        "memory": f"{here.memory_bytes / (1 << 30):.0f} GiB",
        "kernel": here.kernel,
        "distribution": platform.freedesktop_os_release().get("PRETTY_NAME", "unknown"),
        "python": here.python,
        "file system": file_system_of(str(work_folder)) or "unknown",
    }
