"""A repository below what is backed up would be backed up while it grows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from kit.user import User

FILESET = 'FileSet {{ Name = All\n Include {{ File = "{}" }} }}'


@pytest.mark.parametrize("how", ["paths", "exclusions", "fileset"])
def test_it_is_left_out_and_said(user: User, how: str) -> None:
    tree = user.folder
    (tree / "file").write_text("content")
    (tree / "fileset.conf").write_text(FILESET.format(tree))
    words: dict[str, list[str | Path]] = {
        "paths": [tree],
        "exclusions": [tree, "--exclude", "*.none"],
        "fileset": ["--fileset-config", tree / "fileset.conf"],
    }
    for _ in range(2):
        outcome = user.backup(*words[how])
        assert len(outcome.warnings) == 1
        assert str(user.repository) in outcome.warnings[0]
        names = user.names(tree)
        assert {"file", "repository"} <= names
        assert not {name for name in names if name.startswith("repository/")}
    # A restore with --delete leaves it alone as well.
    assert user.run("restore", f"latest:{tree}", "--in-place", "--delete").code == 0
    assert len(user.snapshots()) == 2


def test_what_is_excluded_anyway_is_not_said(user: User, source: Path) -> None:
    assert not user.backup(source).warnings
    assert not user.backup(user.folder, "--exclude", "repository").warnings
