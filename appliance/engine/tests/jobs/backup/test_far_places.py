"""A file system behind a daemon is scanned by many threads without being asked to."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from kit.user import children_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kit.user import User

FILES = 300
DELAY_MILLISECONDS = 3


@pytest.fixture
def far(source: Path) -> Iterator[Path]:
    """The tree of `source`, seen through a file system that is slow to answer."""
    pytest.importorskip("mfusepy")
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        pytest.skip("needs /dev/fuse")
    for number in range(FILES):
        path = source / f"{number % 10}" / f"{number}"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(os.urandom(number * 10))
    place = source.parent / "far"
    place.mkdir()
    words = [
        "-m",
        "strongroom.measure.testbed.delayed_files",
        source,
        place,
        str(DELAY_MILLISECONDS),
    ]
    process = subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    if process.stdout.readline() != "mounted\n":
        process.wait()
        pytest.skip("this sandbox does not let us mount")
    yield place
    subprocess.run(["fusermount3", "-u", place], check=True)
    process.wait()


def most_threads(user: User, *words: str | Path) -> int:
    """Threads that the shard of a backup had at most."""
    process = user.start("backup", "--shards", "1", "--level", "full", *words)
    most = 0
    while process.poll() is None:
        try:
            for shard in children_of(process.pid):
                most = max(most, len(os.listdir(f"/proc/{shard}/task")))
        except (FileNotFoundError, ProcessLookupError):
            continue
    outcome = user.end(process)
    assert outcome.code == 0, outcome.messages
    assert outcome.summary["files"] == FILES
    return most


def test_the_file_system_is_asked_how_many_threads(user: User, far: Path, source: Path) -> None:
    assert most_threads(user, far) == 33
    restored = user.restore() / str(far)[1:]
    for number in range(FILES):
        name = f"{number % 10}/{number}"
        assert (restored / name).read_bytes() == (source / name).read_bytes()
    assert most_threads(user, far, "--scan-threads", "1") == 1
    assert most_threads(user, source) == 1
