"""A fresh XFS within a file, mounted for a block of a test."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_SIZE_BYTES = 320 << 20


@contextmanager
def mounted_xfs(place: Path) -> Iterator[None]:
    """Mounted at `place` within the block; skips the test where that cannot be done."""
    if os.geteuid() != 0 or shutil.which("mkfs.xfs") is None:
        pytest.skip("needs root and mkfs.xfs")
    image = place.with_name(f"{place.name}.image")
    with image.open("wb") as file:
        file.truncate(_SIZE_BYTES)
    subprocess.run(["mkfs.xfs", "-q", image], check=True)
    place.mkdir(exist_ok=True)
    words = ["mount", "-t", "xfs", "-o", "loop", str(image), str(place)]
    if subprocess.run(words, capture_output=True, check=False).returncode:
        pytest.skip("this sandbox does not let us mount XFS")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)
