"""Folders in memory, for tests that make many small objects durable: a disk would only be slow."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

MEMORY = "/dev/shm"


@contextmanager
def memory_folder() -> Iterator[Path]:
    """A new folder for the length of the block, on a disk where the machine has no /dev/shm."""
    place = MEMORY if os.path.isdir(MEMORY) else None
    made = Path(tempfile.mkdtemp(prefix="strongroom-", dir=place))
    try:
        yield made
    finally:
        shutil.rmtree(made)
