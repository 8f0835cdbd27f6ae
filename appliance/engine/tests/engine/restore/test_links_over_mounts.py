"""Names of one file that come to lie on several file systems keep its content."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.hand_backup import back_up
from kit.observed_restore import run_restore
from strongroom.base.errors import EXIT_INCOMPLETE
from strongroom.engine.restore.options import EntryKind

NAMES = ("a", "mounted/b", "mounted/c", "z", "zz/d")


@pytest.fixture(params=["mounted", "mounted and zz"])
def out(request, tmp_path: Path) -> Iterator[Path]:
    """A target that has file systems of their own below it."""
    mounted = []
    for name in request.param.split(" and "):
        place = tmp_path / "out" / name
        place.mkdir(parents=True)
        words = ["mount", "-t", "tmpfs", "-o", "size=200m", "tmpfs", str(place)]
        if os.geteuid() != 0 or subprocess.run(words, capture_output=True, check=False).returncode:
            pytest.skip("this sandbox does not let us mount")
        mounted.append(place)
    yield tmp_path / "out"
    for place in mounted:
        subprocess.run(["umount", "--lazy", place], check=True)


@pytest.mark.parametrize("size", [10, 65 << 20])
def test_each_file_system_has_one_copy_and_it_is_said_once(repository, tree, out, size):
    for name in ("mounted", "zz"):
        (tree / name).mkdir()
    (tree / "a").write_bytes(os.urandom(1 << 20) * (size >> 20) or b"content")
    (tree / "a").chmod(0o640)
    for name in NAMES[1:]:
        os.link(tree / "a", tree / name)
    snapshot = back_up(repository, os.fsencode(tree))
    for _ in range(2):
        seen = run_restore(repository, snapshot, out)
        assert [(one.kind, one.path) for one in seen.problems] == [(EntryKind.LINK, b"mounted/b")]
        assert seen.report.exit_code == EXIT_INCOMPLETE
        for name in NAMES:
            assert (out / name).read_bytes() == (tree / "a").read_bytes()
            assert (out / name).stat().st_mode == (tree / "a").stat().st_mode
        assert (out / "mounted" / "b").samefile(out / "mounted" / "c")
        assert (out / "a").samefile(out / "z")
    assert {path: how for path, how in seen.actions().items() if how != "unchanged"} == {}
    # A name that went is linked again to the copy beside it.
    (out / "mounted" / "c").unlink()
    run_restore(repository, snapshot, out)
    assert (out / "mounted" / "b").samefile(out / "mounted" / "c")
