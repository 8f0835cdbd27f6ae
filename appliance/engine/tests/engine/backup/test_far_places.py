"""A file system behind a daemon is scanned by many threads without being asked to."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.prepared_commands import run_command
from kit.user import User, children_of

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
        "strongroom_bench.testbed.delayed_files",
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


def threads_of(user: User, *words: str | Path) -> tuple[int, str, int]:
    """What the summary of a backup says of threads, and how many its shard had at most."""
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
    summary = outcome.summary
    assert summary["files"] == FILES
    return summary["scan_threads"], summary["scan_bound"], most


def test_as_many_threads_as_the_file_system_is_worth(user: User, far: Path, source: Path) -> None:
    threads, bound, most = threads_of(user, far)
    assert threads >= 8
    assert bound in ("most", "waits", "tree")
    # And the shard's own thread.
    assert 1 < most <= 1 + threads
    restored = user.restore() / str(far)[1:]
    for number in range(FILES):
        name = f"{number % 10}/{number}"
        assert (restored / name).read_bytes() == (source / name).read_bytes()
    assert threads_of(user, far, "--scan-threads", "1") == (1, "given", 1)
    assert threads_of(user, source) == (1, "quick", 1)


def test_verbose_says_how_many_and_why_no_more(user: User, far: Path, source: Path) -> None:
    def said(*words: str) -> str:
        ended = run_command(["backup", "--verbose", *words], user.environment, user.folder)
        assert ended.returncode == 0, ended.stderr
        return bytes(ended.stdout).decode()

    assert "scan threads in each shard: " in said(str(far))
    three = said(str(far), "--scan-threads", "3")
    assert "up to 3 scan threads in each shard: as asked" in three
    assert "1 scan thread in each shard: " in said(str(source))


@pytest.fixture
def far_below_something_local(far: Path) -> Iterator[Path]:
    """An overlay: its type says nothing of what answers late below it."""
    folders = {name: far.parent / name for name in ("upper", "work", "overlay")}
    for folder in folders.values():
        folder.mkdir()
    below = f"lowerdir={far},upperdir={folders['upper']},workdir={folders['work']}"
    place = folders["overlay"]
    words = ["mount", "-t", "overlay", "overlay", "-o", below, place]
    if subprocess.run(words, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount an overlay")
    yield place
    subprocess.run(["umount", place], check=True)


def test_a_late_answer_is_noticed_whatever_the_file_system_is_called(
    user: User, far_below_something_local: Path, source: Path
) -> None:
    threads, bound, most = threads_of(user, far_below_something_local)
    assert threads >= 8
    assert bound in ("most", "waits", "tree")
    assert 1 < most <= 1 + threads
    restored = user.restore() / str(far_below_something_local)[1:]
    for number in range(FILES):
        name = f"{number % 10}/{number}"
        assert (restored / name).read_bytes() == (source / name).read_bytes()
