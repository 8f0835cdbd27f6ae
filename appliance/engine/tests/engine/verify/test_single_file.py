"""Verifying one file says nothing about what is beside it."""

from __future__ import annotations

import os

from kit.command import Command


def test_neighbours_of_a_file_are_not_told(tree, tmp_path):
    command = Command(tmp_path)
    command.make_repository()
    (tree / "one").write_text("one")
    (tree / "other").write_text("other")
    command.back_up(str(tree))
    (tree / "later").write_text("later")
    (*_, last) = command("verify", f"latest:{tree}/one")
    assert last.startswith("1 entry compared")
    assert last.endswith(": no differences")
    found = command("verify", f"latest:{tree}", exit_code=21)
    assert any(line.split()[:2] == ["extra", f"{tree}/later:"] for line in found)


def test_times_are_told_for_people(tree, tmp_path):
    command = Command(tmp_path)
    command.make_repository()
    (tree / "one").write_text("one")
    os.utime(tree / "one", ns=(1_600_000_000_000_000_001, 1_600_000_000_000_000_001))
    command.back_up(str(tree))
    os.utime(tree / "one", ns=(1_700_000_000_000_000_000, 1_700_000_000_000_000_000))
    (line, *_) = command("verify", f"latest:{tree}/one", exit_code=21)
    assert line.endswith("2020-09-13 12:26:40 then, 2023-11-14 22:13:20 now")
    os.utime(tree / "one", ns=(1_600_000_000_000_000_002, 1_600_000_000_000_000_002))
    (line, *_) = command("verify", f"latest:{tree}/one", exit_code=21)
    assert line.endswith("12:26:40.000000001 then, 2020-09-13 12:26:40.000000002 now")
