"""Folders with files that behave oddly; see restless_file and unsized_file."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from kit.project import TESTS


def mounted_restless_file(place: Path) -> AbstractContextManager[None]:
    """A file that is never twice the same, at `place` within the block."""
    return _mounted(place, "kit.restless_file")


def mounted_unsized_file(place: Path) -> AbstractContextManager[None]:
    """A file that says it is empty and is not, at `place` within the block."""
    return _mounted(place, "kit.unsized_file")


def mounted_unlistable_folder(place: Path) -> AbstractContextManager[None]:
    """A folder that cannot be listed while there is a file `place`.fails."""
    return _mounted(place, "kit.unlistable_folder")


@contextmanager
def _mounted(place: Path, module: str) -> Iterator[None]:
    """Skips the test where nothing can be mounted."""
    pytest.importorskip("mfusepy")
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        pytest.skip("needs /dev/fuse")
    process = subprocess.Popen(
        [sys.executable, "-m", module, place],
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
