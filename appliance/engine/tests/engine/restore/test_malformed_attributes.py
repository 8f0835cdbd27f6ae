"""Attributes of a directory that no backup would write cost that directory's attributes only."""

from __future__ import annotations

import os

import pytest

from kit.hand_backup import back_up
from kit.observed_restore import run_restore
from strongroom.engine.restore.options import EntryKind
from strongroom.engine.rows.rows import Rows


@pytest.mark.parametrize("keeps", [False, True])
def test_the_restore_goes_on_and_names_the_directory(repository, tree, tmp_path, keeps):
    (tree / "bad").mkdir(mode=0o755)
    (tree / "bad" / "file").write_bytes(b"kept")
    (tree / "good").mkdir(mode=0o750)

    def spoil(rows: Rows) -> None:
        if not rows.directory:
            rows.xattrs = {rows.name_list().index(b"bad"): b"\xff\xff\xff"}

    snapshot = back_up(repository, os.fsencode(tree), edit=spoil)
    seen = run_restore(repository, snapshot, tmp_path / "out", keeps_privileges=keeps)
    assert [(problem.kind, problem.path) for problem in seen.problems] == [
        (EntryKind.CONTENT, b"bad")
    ]
    assert seen.report.exit_code == 20
    assert (tmp_path / "out/bad/file").read_bytes() == b"kept"
    assert (tmp_path / "out/good").stat().st_mode & 0o777 == 0o750
