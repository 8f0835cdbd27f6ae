"""The walk that counts ahead of a backup takes bounded memory, however wide a directory is."""

import os
import tracemalloc

import numpy as np
import pytest

from strongroom.engine.backup.tree_count import TreeCount
from strongroom.engine.backup.wide_directory import WIDE_DIRECTORY_ROWS

FILES = 120_000
# Columns of each entry take 80 bytes and its name about 50; of all of them that is 16 MB, and of
# a lot 2 MB. Where names are reported they are sorted first, in a column of 18 bytes each.
MOST_BYTES = 4_500_000
MOST_BYTES_TOLD = 10_000_000


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    tree = tmp_path_factory.mktemp("wide")
    for number in range(FILES):
        os.mknod(tree / f"message-{number:06}.eml", 0o644)
    (tree / "message-03").mkdir()
    (tree / "message-03/inner").write_bytes(b"twelve bytes")
    return tree


def test_a_wide_directory_is_counted_whole(wide):
    found = []
    counted = TreeCount(
        (os.fsencode(wide)[1:],), None, found=lambda folder, names: found.append((folder, names))
    ).run()
    assert (counted.files, counted.directories, counted.size_bytes) == (FILES + 1, 2, 12)
    assert not counted.problems
    inside = [names for folder, names in found if folder == os.fsencode(wide)[1:]]
    assert [name for names in inside for name in names] == sorted(os.listdir(os.fsencode(wide)))
    assert len(inside) > 1
    assert FILES > WIDE_DIRECTORY_ROWS


@pytest.mark.parametrize(
    ("found", "most_bytes"),
    [(None, MOST_BYTES), (lambda *_: None, MOST_BYTES_TOLD)],
    ids=["counted", "told"],
)
def test_it_takes_less_memory_than_its_entries_do(wide, found, most_bytes):
    assert np  # imported before its memory would count
    tracemalloc.start()
    try:
        counted = TreeCount((os.fsencode(wide)[1:],), None, found=found).run()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert counted.files == FILES + 1
    assert peak < most_bytes
