"""A backup that is broken off leaves no snapshot, no process, and what it stored is used again."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from kit.user import User, children_of, processes_of
from strongroom.engine.processes.fork import END_SECONDS

SIZE_BYTES = 150_000_000
WAIT_SECONDS = 60


@pytest.fixture
def noise(user: User) -> Path:
    folder = user.folder / "noise"
    folder.mkdir()
    for number in range(15):
        (folder / f"{number}").write_bytes(os.urandom(SIZE_BYTES // 15))
    return folder


def whole_packs(user: User) -> int:
    return sum(len(path.name) == 64 for path in user.packs)


def begun(user: User, noise: Path) -> subprocess.Popen[bytes]:
    """A slow backup that has stored its first pack."""
    process = user.start(
        "backup", noise, "--shards", "2", "--compression", "gzip9", start_new_session=True
    )
    deadline = time.monotonic() + WAIT_SECONDS
    while not whole_packs(user):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return process


def assert_nothing_runs(group: int) -> None:
    deadline = time.monotonic() + 10
    while running := processes_of(group):
        assert time.monotonic() < deadline, running
        time.sleep(0.02)


def assert_continues(user: User, noise: Path) -> None:
    assert user.snapshots() == []
    stored = sum(path.stat().st_size for path in user.packs if len(path.name) == 64)
    assert stored > 30_000_000
    summary = user.backup(noise, "--compression", "none").summary
    assert summary["parent"] is None
    assert summary["new_bytes"] <= SIZE_BYTES - 0.99 * stored
    user.assert_restores(noise)
    assert user.run("check").code == 0


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)]
)
def test_a_signal_ends_the_backup_and_the_next_continues(
    user: User, noise: Path, number: int, code: int
) -> None:
    process = begun(user, noise)
    before = time.monotonic()
    process.send_signal(number)
    outcome = user.end(process)
    elapsed_seconds = time.monotonic() - before
    assert outcome.code == code
    assert outcome.error == ("interrupted" if code > 0 else "")
    assert_nothing_runs(process.pid)
    leftovers = [path for path in user.packs if len(path.name) != 64]
    # Workers that a busy machine keeps from ending in time are killed.
    assert code < 0 or leftovers == [] or elapsed_seconds > END_SECONDS
    assert_continues(user, noise)


def test_a_key_at_the_terminal_reaches_all_and_ends_the_backup(user: User, noise: Path) -> None:
    process = begun(user, noise)
    os.killpg(process.pid, signal.SIGINT)
    assert user.end(process).code == 130
    assert_nothing_runs(process.pid)
    assert user.snapshots() == []


def test_a_killed_shard_ends_the_backup_with_a_clear_error(user: User, noise: Path) -> None:
    process = begun(user, noise)
    os.kill(children_of(process.pid)[-1], signal.SIGKILL)
    outcome = user.end(process)
    assert (outcome.code, outcome.error) == (1, "general")
    assert "a backup process was killed" in outcome.messages
    assert "Traceback" not in outcome.messages
    assert_nothing_runs(process.pid)
    assert_continues(user, noise)


@pytest.mark.parametrize(
    ("faults", "code", "error"),
    [
        ("write:packs:3:ENOSPC", 30, "store"),
        ("commit:packs:1:EIO", 30, "store"),
        ("put:index:1:EROFS", 30, "store"),
        ("sync:any:1:EIO", 30, "store"),
        ("put_durable:snapshots:1:ENOSPC", 30, "store"),
        ("put_durable:snapshots:1:crash", -9, ""),
    ],
)
def test_a_store_that_fails_ends_the_backup(
    user: User, source: Path, faults: str, code: int, error: str
) -> None:
    for number in range(20):
        (source / f"{number}").write_bytes(os.urandom(100_000))
    user.environment["STRONGROOM_STORE_FAULTS"] = faults
    process = user.start("backup", source, start_new_session=True)
    outcome = user.end(process)
    assert (outcome.code, outcome.error) == (code, error)
    assert_nothing_runs(process.pid)
    del user.environment["STRONGROOM_STORE_FAULTS"]
    assert user.snapshots() == []
    user.backup(source)
    user.assert_restores(source)
