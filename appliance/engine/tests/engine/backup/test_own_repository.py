"""A repository below what is backed up would be backed up while it grows."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kit.command import Command
from kit.storage_daemon import Daemon
from kit.user import User
from strongroom.engine.backup.own_repository import OwnRepository
from strongroom.engine.backup.tree_count import TreeCount
from strongroom.engine.repository.repository import Repository
from strongroom.engine.stores.local import LocalStore

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


def test_one_that_a_daemon_of_this_machine_serves_is_known_too(folder: Path) -> None:
    site = Command(folder)
    site.make_repository()
    tree = folder.resolve()
    (tree / "file").write_text("content")
    daemon = Daemon(site.folder)
    place = ("--repo", f"unix:{daemon.socket_path}")
    try:
        for _ in range(2):
            seen = site.objects("backup", str(tree), "--exclude", "*.key", *place)
            (warning,) = (one["message"] for one in seen if one["type"] == "warning")
            assert str(site.repository) in str(warning)
        found = site("ls", "-R", "latest", *place)
    finally:
        daemon.stop()
    assert f"{tree}/repository" in found
    assert not [one for one in found if one.startswith(f"{tree}/repository/")]


@pytest.mark.parametrize("is_served", [False, True])
def test_the_count_ahead_does_not_count_it(user: User, *, is_served: bool) -> None:
    (user.folder / "file").write_text("content")
    repository = Repository.open(LocalStore(str(user.repository)), b"correct horse")
    own = OwnRepository.of(repository)
    repository.close()
    assert own.place is not None
    own = own._replace(place=None) if is_served else own
    paths = (os.fsencode(user.folder.resolve()).strip(b"/"),)
    whole = TreeCount(paths, None).run()
    counted = TreeCount(paths, None, own=own).run()
    assert (whole.files > 2, counted.files) == (True, 1)
