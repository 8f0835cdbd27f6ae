"""A command whose work is not its output does it wherever its output goes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kit.command import Command

# How a shell would write it, and whether the other stream can say what was lost.
LOST = {
    "full": ">/dev/full",
    "closed": ">&-",
    "reader gone": "| true",
    "messages full": "2>/dev/full",
    "messages closed": "2>&-",
    "all closed": ">&- 2>&- <&-",
}


def run(command: Command, redirection: str, *words: str) -> subprocess.CompletedProcess[str]:
    line = command.words(*words, key_file=command.restore_key)
    return subprocess.run(
        ["bash", "-c", f'"$@" {redirection}; exit ${{PIPESTATUS[0]}}', "bash", *line],
        env=command.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def tree(tree: Path) -> Path:
    for number in range(300):
        (tree / f"file{number}").write_text(str(number))
    return tree


@pytest.mark.parametrize("how", LOST)
@pytest.mark.parametrize("form", ["--json", "-vv"])
def test_a_backup_ends_with_its_own_code(command, tree, how, form):
    assert run(command, LOST[how], "backup", str(tree), form).returncode == 0
    ended = run(command, LOST[how], "backup", str(tree), str(tree / "gone"), form)
    assert ended.returncode == 3
    assert "Traceback" not in ended.stderr
    if how in ("full", "closed", "reader gone"):
        assert ended.stderr.count("standard output cannot be written") == 1
    if how.startswith("messages") and form == "-vv":
        assert ended.stdout.count("standard error cannot be written") == 1
    assert len(command.objects("snapshots")) == 2
    assert command("check", "--read-data")


def test_restore_and_check_go_on_too(command, tree, tmp_path):
    command.back_up(str(tree))
    target = tmp_path / "out"
    words = ("restore", f"latest:{tree}", "--target", str(target), "-v")
    assert run(command, ">/dev/full", *words).returncode == 0
    assert len(list(target.iterdir())) == 300
    assert run(command, ">/dev/full", "check", "-v").returncode == 0


def test_what_is_nothing_but_output_fails_and_says_why(command, tree):
    command.back_up(str(tree))
    for words in (("ls", f"latest:{tree}"), ("dump", f"latest:{tree}/file1"), ("snapshots",)):
        ended = run(command, ">/dev/full", *words)
        assert ended.returncode == 71
        assert "standard output" in ended.stderr
        assert run(command, ">&-", *words).returncode == 71


def test_a_file_of_the_repository_never_becomes_standard_output(command, tree):
    before = command.stored_objects()
    assert run(command, ">&- 2>&- <&-", "ls", f"latest:{tree}").returncode != 0
    assert command.stored_objects() == before
