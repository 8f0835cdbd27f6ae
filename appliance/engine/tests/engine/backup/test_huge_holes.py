"""Sparse files of any size cost what they hold: any user can make one with a single command."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest

from kit.user import User
from strongroom.engine.backup.tree_count import TreeCount

EXBIBYTE = 1 << 60


@pytest.fixture
def huge(folder: Path) -> Path:
    """Two files that together are larger than a 64-bit total, on tmpfs."""
    tree = folder / "huge"
    tree.mkdir()
    for name in ("a", "b"):
        with (tree / name).open("wb") as file:
            try:
                file.truncate(7 * EXBIBYTE)
            except OSError:
                pytest.skip("this file system has no such files")
    with (tree / "a").open("r+b") as file:
        for place in (1, 3 * EXBIBYTE - 5, 7 * EXBIBYTE - 10):
            file.seek(place)
            file.write(b"nine bytes")
    (tree / "small").write_text("small")
    return tree


def bound_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))


def run_bounded(user: User, *words: str | Path) -> dict[str, object]:
    outcome = user.end(user.start(*words, preexec_fn=bound_memory))
    assert outcome.code == 0, (outcome.messages, outcome.objects)
    return outcome.summary


@pytest.mark.parametrize("signature", ["none", "blake3", "sha256"])
def test_they_are_backed_up_checked_and_restored_by_their_data(
    user: User, huge: Path, signature: str
) -> None:
    first = run_bounded(user, "backup", huge, "--signature", signature)
    assert first["size_bytes"] == (1 << 63) - 1, "the largest number that there is"
    assert (first["files"], first["bytes_read"]) == (3, 4 * 4096 + len("small"))
    (huge / "c").touch()
    again = run_bounded(user, "backup", huge, "--signature", signature)
    assert again["bytes_read"] == 0
    assert user.run("check", "--read-data").code == 0
    target = user.restore()
    restored = target / str(huge).lstrip("/") / "a"
    assert restored.stat().st_size == 7 * EXBIBYTE
    assert restored.stat().st_blocks <= 32
    with restored.open("rb") as file:
        assert os.pread(file.fileno(), 10, 3 * EXBIBYTE - 5) == b"nine bytes"
    assert user.run("verify", "latest", "--read-data").code == 0


def test_the_time_left_is_not_that_of_their_holes(user: User, huge: Path) -> None:
    user.backup(huge)
    (huge / "large").write_bytes(os.urandom(60 << 20))
    outcome = user.backup(huge)
    left = [one["remaining_seconds"] for one in outcome.of_type("progress")]
    assert all(one is None or one < 3600 for one in left)


def test_they_are_counted_by_their_data(huge: Path) -> None:
    counted = TreeCount((os.fsencode(huge).lstrip(b"/"),), None).run()
    assert (counted.files, counted.size_bytes) == (3, 4 * 4096 + len("small"))
