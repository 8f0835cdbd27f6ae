"""Fixtures: what a test makes is in memory, for rooms whose tests need no real file system.

Their catalogs, certificates and repositories are many small files that are made durable one by one;
on a disk that is most of the time of such a test, and pytest removes them all later.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.memory_folder import memory_folder


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """In the place of pytest's; removed with the test."""
    with memory_folder() as made:
        yield made
