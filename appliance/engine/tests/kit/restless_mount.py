"""A folder with a file that is never twice the same; see restless_file."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from kit.project import TESTS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def mounted_restless_file(place: Path) -> Iterator[None]:
    """Mounted at `place` within the block; skips the test where nothing can be mounted."""
    pytest.importorskip("mfusepy")
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        pytest.skip("needs /dev/fuse")
    process = subprocess.Popen(
        [sys.executable, "-m", "kit.restless_file", place],
        stdout=subprocess.PIPE,
        text=True,
        cwd=TESTS,
    )
    assert process.stdout is not None
    if process.stdout.readline() != "mounted\n":
        process.wait()
        pytest.skip("this sandbox does not let us mount")
    try:
        yield
    finally:
        subprocess.run(["fusermount3", "-u", place], check=True)
        process.wait()
