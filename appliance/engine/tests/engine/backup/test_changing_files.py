"""Files that change, grow, shrink, vanish or turn into something else while they are read."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kit.restless_mount import mounted_restless_file
from kit.user import Outcome, User

CHANGED = "changed while it was read"


@contextmanager
def meanwhile(step: Callable[[], None]) -> Iterator[None]:
    """Do something again and again for the length of the block."""
    ended = threading.Event()

    def repeat() -> None:
        while not ended.is_set():
            step()

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def backup_of_change(user: User, source: Path, *words: str) -> Outcome:
    outcome = user.run("backup", source, *words)
    assert outcome.code in (0, 3), outcome.messages
    assert (outcome.code == 3) == bool(outcome.problems)
    return outcome


@pytest.fixture
def restless(source: Path) -> Iterator[Path]:
    """A folder with a file that never keeps still; see kit.restless_file."""
    with mounted_restless_file(source):
        yield source


@pytest.mark.parametrize("threads", ["1", "4"])
def test_a_small_file_that_never_keeps_still_is_told_and_kept(
    user: User, restless: Path, threads: str
) -> None:
    outcome = backup_of_change(user, restless, "--scan-threads", threads)
    assert list(outcome.problems) == [str(restless / "busy")]
    assert CHANGED in outcome.problems[str(restless / "busy")]
    listed = user.listed(below=restless)
    assert listed["busy"]["state"] == "changed"
    assert "state" not in listed["calm"]
    restored = user.restore() / str(restless)[1:]
    assert (restored / "busy").read_bytes() == (restless / "busy").read_bytes()
    assert (restored / "calm").read_bytes() == b"calm"


def test_a_small_file_that_changes_all_the_time_does_no_harm(user: User, source: Path) -> None:
    """Whether it is caught in the act is up to the processors; what it may spoil is not."""
    path = source / "busy"
    path.write_bytes(bytes(100_000))
    (source / "calm").write_bytes(b"calm")
    descriptor = os.open(path, os.O_WRONLY)

    def grow() -> None:
        size = random.randrange(1, 100_000)
        os.ftruncate(descriptor, size)
        os.pwrite(descriptor, bytes(random.randrange(100)), 0)

    with meanwhile(grow):
        for number in range(4):
            outcome = backup_of_change(user, source, *(["--scan-threads", "4"] * (number % 2)))
            assert all(CHANGED in text for text in outcome.problems.values())
            state = user.listed(below=source)["busy"].get("state")
            assert state == ("changed" if str(path) in outcome.problems else None)
            assert (user.restore() / str(source)[1:] / "calm").read_bytes() == b"calm"
    os.close(descriptor)


@pytest.mark.parametrize("change", ["grow", "shrink", "rewrite"])
def test_a_large_file_that_changes_is_told_and_never_ruins_the_snapshot(
    user: User, source: Path, change: str
) -> None:
    path = source / "large"
    size = 120_000_000
    block = os.urandom(1 << 20)
    with path.open("wb") as file:
        while file.tell() < size:
            file.write(block)
    (source / "calm").write_bytes(b"calm")
    descriptor = os.open(path, os.O_RDWR)

    def step() -> None:
        if change == "grow":
            os.pwrite(descriptor, b"more", os.fstat(descriptor).st_size)
        elif change == "shrink":
            os.ftruncate(descriptor, max(1, os.fstat(descriptor).st_size - 50_000))
            time.sleep(0.002)
        else:
            os.pwrite(descriptor, block[:5000], random.randrange(size))

    with meanwhile(step):
        outcome = backup_of_change(user, source)
    os.close(descriptor)
    assert list(outcome.problems) == [str(path)]
    assert CHANGED in outcome.problems[str(path)]
    entry = user.listed(below=source)["large"]
    assert entry["state"] == "changed"
    restored = user.restore() / str(source)[1:]
    assert (restored / "large").stat().st_size == entry["size_bytes"]
    assert (restored / "calm").read_bytes() == b"calm"
    path.write_bytes(b"calm at last")
    assert backup_of_change(user, source).code == 0
    user.assert_restores(source)


def test_files_that_vanish_are_left_out_and_harmless(user: User, source: Path) -> None:
    for directory in range(40):
        (source / f"{directory}").mkdir()
        for number in range(100):
            (source / f"{directory}" / f"{number}").write_bytes(b"x" * number)
    remover = subprocess.Popen(
        [
            sys.executable,
            "-c",
            (
                f"import shutil; shutil.rmtree({str(source / '1')!r})\n"
                f"for n in range(2, 40): shutil.rmtree({str(source)!r} + '/' + str(n))"
            ),
        ]
    )
    outcome = user.run("backup", source)
    remover.wait()
    assert outcome.code == 0, (outcome.messages, outcome.objects)
    assert outcome.problems == {}
    listed = user.listed(below=source)
    # What was being read when it was removed has changed in that moment; it is whole.
    assert {entry.get("state", "changed") for entry in listed.values()} == {"changed"}
    assert {"0", "0/99"} <= set(listed)
    user.restore()


def test_files_that_vanish_between_listing_and_reading_have_no_row(
    user: User, source: Path
) -> None:
    """A wide directory is listed long before the last of its files is read."""
    for number in range(4000):
        (source / f"{number:05}").write_bytes(os.urandom(20_000))
    process = user.start("backup", source, "--shards", "1", "--compression", "zstd19")
    while not (user.repository / "leases").exists() or not os.listdir(user.repository / "leases"):
        time.sleep(0.01)
    time.sleep(0.6)
    for number in range(2000, 4000):
        (source / f"{number:05}").unlink()
    outcome = user.end(process)
    assert outcome.code == 0, outcome.messages
    assert outcome.vanished, "nothing vanished in time; the test needs a slower backup"
    left_out = {path.rpartition("/")[2] for path in outcome.vanished}
    listed = user.listed(below=source)
    assert not left_out & set(listed)
    assert all("state" not in entry for entry in listed.values())
    assert {f"{number:05}" for number in range(2000)} <= set(listed)
    assert outcome.summary["vanished"] == len(left_out)
    user.restore()
    # What is there again is unknown to the snapshot, which a later file is not.
    back, later = source / min(left_out), source / "later"
    back.touch()
    later.touch()
    seen = user.run("restore", f"latest:{source}", "--in-place", "--delete")
    assert (seen.code, back.exists(), later.exists()) == (0, True, False)
    assert seen.summary["not_deleted"] == {"vanished": 1}


def test_files_that_turn_into_something_else_are_told_and_do_no_harm(
    user: User, source: Path
) -> None:
    (source / "calm").write_bytes(b"calm")
    path, other = source / "turning", source.parent / "other"

    def turn() -> None:
        kind = random.randrange(5)
        if kind == 0:
            other.write_bytes(b"a file")
        elif kind == 1:
            os.mkfifo(other)
        elif kind == 2:
            other.symlink_to("/etc/passwd")
        elif kind == 3:
            other.mkdir()
        else:
            other.write_bytes(bytes(2_000_000))
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        elif other.is_dir() and not other.is_symlink() and os.path.lexists(path):
            path.unlink()
        os.rename(other, path)

    kinds = set()
    with meanwhile(turn):
        for number in range(12):
            words = ["--scan-threads", "3"] if number % 3 == 0 else []
            outcome = backup_of_change(user, source, "--level", "full", *words)
            kinds.update(text for text in outcome.problems.values())
            target = user.restore(code=None)
            assert (target / str(source)[1:] / "calm").read_bytes() == b"calm"
            restored = target / str(path)[1:]
            assert (
                restored.is_symlink()
                or not restored.is_file()
                or (b"root" not in restored.read_bytes())
            )
    if path.is_dir():
        shutil.rmtree(path)


@pytest.fixture
def somebody(user: User) -> User:
    """The user without any privilege; what is in the folder belongs to them."""
    if os.geteuid() != 0:
        pytest.skip("becomes somebody else")
    user.prefix = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--")
    (user.folder / "source").mkdir()
    for path in (user.folder, *user.folder.rglob("*")):
        os.chown(path, 65534, 65534)
    return user


def test_what_one_may_not_read_is_told_and_the_rest_is_kept(somebody: User) -> None:
    source = somebody.folder / "source"
    (source / "open").write_bytes(b"open")
    (source / "secret").write_bytes(b"secret")
    (source / "others").mkdir()
    for number in range(100):
        (source / f"others/{number}").write_bytes(b"x")
        (source / f"others/{number}").chmod(0)
    (source / "secret").chmod(0)
    (source / "empty").touch(0)
    (source / "closed").mkdir()
    (source / "closed/inside").write_bytes(b"inside")
    (source / "closed").chmod(0o600)
    (source / "large").write_bytes(bytes(50_000_000))
    (source / "large").chmod(0o600)
    for words in ([], ["--scan-threads", "4"], ["--signature", "sha256"]):
        outcome = somebody.backup(source, "--level", "full", *words, code=3)
        unreadable = {str(source / name) for name in ("secret", "closed", "large")}
        unreadable |= {str(source / f"others/{number}") for number in range(100)}
        assert set(outcome.problems) == unreadable
        assert set(outcome.problems.values()) == {"Permission denied"}
        assert outcome.summary["problems"] == 103
        assert somebody.snapshots()[-1]["errors"] == 103
        listed = somebody.listed(below=source)
        assert {name for name in listed if "/" not in name} == {
            "open", "secret", "empty", "closed", "large", "others",
        }  # fmt: skip
        assert all(listed[f"others/{number}"]["state"] == "unreadable" for number in range(100))
        assert listed["secret"]["state"] == listed["large"]["state"] == "unreadable"
    (source / "secret").chmod(0o644)
    somebody.backup(source, code=3)
    assert "state" not in somebody.listed(below=source)["secret"]


def test_a_whole_path_that_cannot_be_read_still_makes_a_snapshot(somebody: User) -> None:
    source = somebody.folder / "source"
    os.chown(source, 0, 0)
    source.chmod(0o700)
    outcome = somebody.backup(source, code=3)
    assert list(outcome.problems) == [str(source)]
    assert len(somebody.snapshots()) == 1
