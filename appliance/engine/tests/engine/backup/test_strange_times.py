"""Times that do not fit into a row are said once, and the nearest that fits is as good."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kit.user import User

SECOND_NS = 10**9
# The years 1453 and 2517.
TIMES_NS = (-16_300_000_000 * SECOND_NS, 17_270_000_000 * SECOND_NS)


@pytest.fixture
def tree(folder: Path) -> Path:
    """Files on tmpfs, which has any time."""
    made = folder / "tree"
    made.mkdir()
    for number, time_ns in enumerate(TIMES_NS):
        (made / f"file{number}").write_text("content")
        os.utime(made / f"file{number}", ns=(time_ns, time_ns))
        if (made / f"file{number}").stat().st_mtime_ns != time_ns:
            pytest.skip("this file system has no such times")
    os.utime(made, ns=(TIMES_NS[1], TIMES_NS[1]))
    return made


def times(tree: Path) -> list[int]:
    return [(tree / f"file{number}").stat().st_mtime_ns for number in range(len(TIMES_NS))]


def test_they_are_said_once_and_are_no_difference(user: User, tree: Path) -> None:
    for _ in range(2):
        outcome = user.backup(tree)
        assert len(outcome.warnings) == 1
        assert "3 entries" in outcome.warnings[0]
    assert user.run("verify", f"latest:{tree}", "--read-data").code == 0
    user.restore()
    # In place nothing has to be done, and the times of now are not replaced by others.
    outcome = user.run("restore", f"latest:{tree}", "--in-place")
    assert set(outcome.summary["actions"]) == {"unchanged"}
    assert times(tree) == list(TIMES_NS)
    os.utime(tree / "file0", ns=(0, 0))
    assert user.run("verify", f"latest:{tree}").code != 0
    assert user.backup(tree, "--level", "full").warnings


def test_usual_times_are_not_mentioned(user: User, source: Path) -> None:
    (source / "file").touch()
    os.utime(source / "file", ns=(-1, -1))
    assert not user.backup(source).warnings
