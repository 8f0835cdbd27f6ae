"""Folders in memory, for tests that make many small objects durable: a disk would only be slow.

Those of a process lie side by side in one folder of its own, so that the folder in which everybody
makes things is changed seldom: a backup of a tree has all folders above it too.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

MEMORY = "/dev/shm"
# A container has 64 MB there, unless it was given more.
_LEAST_BYTES = 1 << 30


@contextmanager
def memory_folder() -> Iterator[Path]:
    """A new folder for the length of the block, on a disk where the machine has little /dev/shm."""
    made = Path(tempfile.mkdtemp(dir=_folder_of_process(os.getpid())))
    try:
        yield made
    finally:
        shutil.rmtree(made)


@cache
def _folder_of_process(pid: int) -> str:
    has_room = os.path.isdir(MEMORY) and shutil.disk_usage(MEMORY).free >= _LEAST_BYTES
    place = MEMORY if has_room else None
    made = tempfile.mkdtemp(prefix="strongroom-", dir=place)
    # Tests that become another user pass through it.
    os.chmod(made, 0o711)

    def remove() -> None:
        # Not by a child that has it from its parent.
        if os.getpid() == pid:
            shutil.rmtree(made, ignore_errors=True)

    atexit.register(remove)
    return made
