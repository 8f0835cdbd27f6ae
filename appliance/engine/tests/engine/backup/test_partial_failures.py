"""Each backup reports what it could not read until it can, and reads it as soon as it can."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from kit.command import Command
from kit.project import TESTS

# Longer than the time in which a file does not count as unchanged.
SETTLING_SECONDS = 0.1
FAILING_SYSTEM = TESTS / "kit" / "failing_system.py"
INCOMPLETE = 3


def back_up_failing(command: Command, tree: Path, function: str, name: str) -> int:
    words = ["backup", str(tree), "--key-file", str(command.restore_key)]
    return subprocess.run(
        [sys.executable, str(FAILING_SYSTEM), function, name, *words],
        env=command.environment,
        capture_output=True,
        timeout=300,
        check=False,
    ).returncode


def test_a_name_that_cannot_be_examined_is_told_again(command: Command, tree: Path) -> None:
    for name in ("bad", "good"):
        (tree / name).write_text(name)
    time.sleep(SETTLING_SECONDS)
    for _ in range(3):
        assert back_up_failing(command, tree, "lstat", "bad") == INCOMPLETE
    assert command.objects("backup", str(tree))[-1]["files_read"] == 1


def test_attributes_that_could_not_be_read_are_read_later(
    command: Command, tree: Path, tmp_path: Path
) -> None:
    for name in ("bad", "good"):
        (tree / name).write_text(name)
        os.setxattr(tree / name, "user.colour", b"blue")
    time.sleep(SETTLING_SECONDS)
    for _ in range(2):
        assert back_up_failing(command, tree, "getxattr", "bad") == INCOMPLETE
    assert command.objects("backup", str(tree))[-1]["files_read"] == 1
    command("restore", "latest", "--target", str(tmp_path / "restored"))
    for name in ("bad", "good"):
        restored = tmp_path / "restored" / str(tree / name).lstrip("/")
        assert (restored.read_text(), os.getxattr(restored, "user.colour")) == (name, b"blue")
